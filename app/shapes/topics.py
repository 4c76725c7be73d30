"""The pictures of the page Beyond by topic: what draws one of a scenario."""

from app.shapes import block_scales, latents, linear_attention, selected_keys
from engine.studies.beyond import BITS, KEYS, LATENTS, STATE

PICTURES = {
    LATENTS: latents.picture,
    KEYS: selected_keys.picture,
    BITS: block_scales.picture,
    STATE: linear_attention.picture,
}
