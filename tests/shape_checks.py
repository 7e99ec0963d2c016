"""The type checker that tests put behind jaxtyping's shapes; an int may stand for a float."""

from beartype import BeartypeConf, beartype

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))
