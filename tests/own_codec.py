"""A module as a researcher writes it, with a codec of one's own; tests copy it into a folder."""

from fltoolkit.codecs.stage import Stage


class Nothing(Stage):
    """Changes nothing."""

    def apply(self, parts):
        return parts

    undo = apply

    def __repr__(self):
        return "Nothing()"
