"""Figures: modules by what they show, the style that all of them share, and their form on a page."""

from specbook.report.figures import svg

svg.register()
