"""Small faults planted one by one: a wrong number each, which the tests nearest to it must see."""
