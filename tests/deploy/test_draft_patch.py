"""A schedule over an overlay: kustomize takes the patch, and the server gets the new config."""

import json
import shutil

import pytest
from deploy_fixtures import DEPLOY, manifests

from specbook.cli.scheduling import kustomization
from specbook.deploy.manifests import deployment, flag, render
from specbook.errors import ConfigError

CONFIG = {
    "method": "eagle3", "model": "elsewhere", "num_speculative_tokens": 8,
    "num_speculative_tokens_per_batch_size": [[1, 8, 8], [9, 32, 0]],
}  # fmt: skip


def container(documents):
    return deployment(documents)["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("overlay", ["cpu", "gpu"])
@pytest.mark.parametrize("config", [CONFIG, None], ids=["by batch", "no draft"])
def test_an_overlay_with_the_patch_renders(overlay, config, tmp_path):
    before = container(manifests(overlay))
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    folder = tmp_path / "deploy" / "overlays" / "by-batch"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(kustomization(overlay, before, config))
    after = container(render(folder))
    served = flag(after, "speculative-config")
    old = json.loads(flag(before, "speculative-config"))
    assert (served and json.loads(served)) == (config and {**config, "model": old["model"]})
    rest = [[arg for arg in one["args"] if "speculative" not in arg] for one in (before, after)]
    assert rest[0] == rest[1]


def test_a_draft_that_the_overlay_lacks_is_refused():
    other = {"method": "ngram", "num_speculative_tokens": 4}
    with pytest.raises(ConfigError, match="overlay 'cpu' serves no such draft"):
        kustomization("cpu", container(manifests("cpu")), other)
