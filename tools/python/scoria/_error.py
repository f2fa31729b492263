"""The exception that the extension module raises."""


class Error(RuntimeError):
    """What the library refused or failed at; `status` is the C interface's name for it."""

    status: str = "SCORIA_FAILED"
