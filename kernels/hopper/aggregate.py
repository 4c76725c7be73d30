"""Aggregates of Triton's, made of what their annotations name."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language import core


def aggregate(cls):
    """A class whose objects kernels hand on, made of its fields' values in their order.

    A field is a gl.constexpr, or what Triton passes on as it comes; an `object` may also be None.
    """
    kinds = cls.__annotations__

    def fill(self, *values):
        for name, value in zip(kinds, values, strict=True):
            known = kinds[name] is gl.constexpr or value is None
            setattr(self, name, gl.constexpr(value) if known else value)

    cls.__init__ = gluon.constexpr_function(fill)
    return core._aggregate(cls)
