"""Figures: one module a chapter, the style that all of them share, and how a page shows them."""

from specbook.report.figures import svg

svg.register()
