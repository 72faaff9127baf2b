"""Mail parsing: from bytes to a `Message`, header fields and header tokens.

The C kernel reads most messages; the Python readers (`readers`, `mime`, `html`) are its fallback for the rest, and for
installations without a compiler. `mail_kernel` returns the available module.
"""

from surebayes.kernels import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType


def mail_kernel() -> "ModuleType":
    """Return the C mail kernel, or its fallback `surebayes.mail.readers` if it isn't built.

    Examples
    --------
    >>> from surebayes.mail import mail_kernel
    >>> mail_kernel().html_text("<p>Fish &amp; chips")
    'Fish & chips'
    """
    return kernel("mail", "surebayes.mail.readers")
