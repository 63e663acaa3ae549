"""What a shell offers behind an option; looked up when it asks."""

from __future__ import annotations


def presets() -> list[str]:
    """Return the presets of pictures."""
    from tazza.cli.image_options import NO_PRESET
    from tazza.images.preprocessing import PRESETS

    return [*PRESETS, NO_PRESET]


def fits() -> list[str]:
    """Return the ways in which pictures get a size."""
    from tazza.images.preprocessing import CHOICES

    return list(CHOICES["fit"])


def colors() -> list[str]:
    """Return the orders of colours."""
    from tazza.images.preprocessing import CHOICES

    return list(CHOICES["colors"])


def formats() -> list[str]:
    """Return the forms of answers."""
    from tazza.cli.predict_results import FORMATS

    return list(FORMATS)


def operator_types(incomplete: str) -> list[str]:
    """Return the operator types that begin so."""
    from tazza.operator import SCHEMAS

    return [name for name in SCHEMAS if name.startswith(incomplete)]


def classifiers(incomplete: str) -> list[str]:
    """Return the nets of the zoo that begin so."""
    from tazza.models.zoo import CLASSIFIERS

    return [name for name in CLASSIFIERS if name.startswith(incomplete)]
