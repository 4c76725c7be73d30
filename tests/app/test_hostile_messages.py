"""What no page sends changes nothing but the session that it came in."""

import asyncio
import random

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetState

from tests.app.test_serving import _run
from tests.dashboard import Dashboard, served
from tests.load import window

VALUES = (
    *({"double_value": float("nan")}, {"double_value": 1e300}, {"int_value": 2**40}, {"string_value": "x"}),
    *({"double_array_value": {"data": [7.0]}}, {"string_array_value": {"data": ["none"]}}),
    *({"json_value": "[" * 9999}, {"bytes_value": b"\0" * 9999}),
)
MESSAGES = (b"", b"\xff" * 99, "text")


async def said(dashboard: Dashboard) -> list[bool]:
    """Whether another window is served as before, after each value and each message."""
    served_still = []
    async with window(dashboard, "traffic") as other:
        await other.run()
        for value in VALUES:
            async with window(dashboard, "traffic") as hostile:
                await hostile.run()
                await hostile.run(*(WidgetState(id=one.id, **value) for one in hostile._sliders.values()))
                await hostile.move(random.Random(1))
            served_still.append(await other.move(random.Random(2)) > 0)
        for message in MESSAGES:
            async with window(dashboard, "traffic") as hostile:
                await hostile.run()
                await hostile._socket.send(message)
                await asyncio.sleep(0.2)
            served_still.append(await other.move(random.Random(3)) > 0)
    return served_still


def test_a_hostile_window_disturbs_neither_its_server_nor_another_window():
    with served() as dashboard:
        assert _run(said(dashboard)) == [True] * (len(VALUES) + len(MESSAGES))


@pytest.mark.parametrize(("name", "wish"), [("preset", "\0none"), ("algorithm", "none"), ("causal", 7)])
def test_a_choice_that_nobody_offers_changes_nothing(open_app, name, wish):
    app = open_app("traffic")
    before = app.session_state["experiment"]
    app.session_state[f"scenario {name}"] = wish
    app._run()
    assert app.session_state["experiment"] == before
