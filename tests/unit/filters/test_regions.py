"""Regions: circles on the globe, boxes and polygons in the plane, and the antimeridian."""

import pickle

import pytest

from godwit.errors import BadValue
from godwit.filters.regions import apart, area, box, box_around, box_hull, circle, distance_m, inside, polygon
from godwit.filters.values import Point

ZURICH, BERN = Point(8.5417, 47.3769), Point(7.4474, 46.9480)
L_SHAPE = polygon([(0, 0), (10, 0), (10, 4), (4, 4), (4, 10), (0, 10)])


def test_distance_is_that_on_the_globe():
    assert distance_m(ZURICH, BERN) == pytest.approx(95_500, rel=0.01)
    assert distance_m(Point(179.5, 0), Point(-179.5, 0)) == pytest.approx(111_195, rel=0.001)
    assert distance_m(Point(0, 90), Point(120, 90)) == pytest.approx(0, abs=1e-6)


def test_a_circle_holds_what_is_near_and_its_border():
    near_zurich = circle(8.5417, 47.3769, 500)
    assert near_zurich.contains(ZURICH)
    assert not near_zurich.contains(BERN)
    assert not near_zurich.contains("Zürich")
    assert circle(0, 0, 0).contains(Point(0, 0))


def test_a_circle_reaches_across_the_antimeridian_and_round_the_pole():
    assert circle(180, 0, 100_000).contains(Point(-179.5, 0))
    assert circle(0, 89.5, 200_000).contains(Point(180, 89.5))
    assert circle(0, 89.5, 200_000).bounds[::2] == (-180.0, 180.0)
    assert circle(0, 89.5, 200_000).bounds[3] == 90.0
    assert circle(0, -89.5, 200_000).bounds[1] == -90.0


def test_a_box_has_its_border_and_may_cross_the_antimeridian():
    pacific = box(170, -10, -170, 10)
    assert box(0, 0, 10, 10).contains(Point(10, 10))
    assert pacific.contains(Point(180, 0))
    assert pacific.contains(Point(-180, 0))
    assert pacific.contains(Point(170, 10))
    assert not pacific.contains(Point(0, 0))


def test_a_polygon_has_its_border_and_its_notch():
    assert L_SHAPE.contains(Point(4, 4))
    assert L_SHAPE.contains(Point(0, 10))
    assert L_SHAPE.contains(Point(2, 9))
    assert not L_SHAPE.contains(Point(5, 5))


@pytest.mark.parametrize(
    ("build", "fault"),
    [
        (lambda: box(0, 5, 1, 4), "south must not lie above north"),
        (lambda: box(0, 0, 181, 1), "lon of a point"),
        (lambda: circle(0, 0, -1), "radius"),
        (lambda: circle(0, 0, float("nan")), "radius"),
        (lambda: circle(0, 0, float("inf")), "radius"),
        (lambda: circle(0, 0, True), "radius"),
        (lambda: polygon([(0, 0), (1, 1)]), "2 corners"),
        (lambda: polygon([(0, 0), (1, 1), (0, 1), (1, 0)]), "not simple"),
        (lambda: polygon([(0, 0), (1, 1), (2, 2)]), "not simple"),
        (lambda: polygon([(i / 100, 0) for i in range(2_000)]), "2000 corners"),
    ],
)
def test_a_malformed_region_is_refused(build, fault):
    with pytest.raises(BadValue, match=fault):
        build()


def test_a_closed_ring_and_an_open_one_are_the_same_polygon():
    assert polygon([(0, 0), (1, 0), (0, 1), (0, 0)]) == polygon([(0, 0), (1, 0), (0, 1)])


def test_inside_and_apart_know_circles_boxes_and_polygons():
    assert inside(circle(5, 5, 10_000), box(0, 0, 10, 10))
    assert inside(box(4.99, 4.99, 5.01, 5.01), circle(5, 5, 10_000))
    assert inside(circle(5, 5, 10_000), circle(5, 5, 20_000))
    assert inside(box(1, 1, 3, 9), L_SHAPE)
    assert not inside(box(1, 1, 5, 5), L_SHAPE)
    assert apart(box(5, 5, 9, 9), L_SHAPE)
    assert apart(circle(0, 0, 10_000), circle(1, 0, 10_000))
    assert apart(polygon([(0, 0), (10, 0), (0, 10)]), polygon([(10, 10), (10, 1), (1, 10)]))
    assert not apart(box(0, 0, 5, 5), L_SHAPE)


def test_a_box_without_width_is_found_in_a_polygon():
    assert inside(box(2, 2, 2, 2), L_SHAPE)
    assert inside(box(1, 2, 3, 2), L_SHAPE)
    assert not apart(box(2, 2, 2, 2), L_SHAPE)
    assert apart(box(7, 5, 7, 9), L_SHAPE)


def test_a_box_across_the_antimeridian_lies_in_the_whole_band():
    assert inside(box(170, -5, -170, 5), box(-180, -10, 180, 10))
    assert not inside(box(-180, -5, 180, 5), box(170, -10, -170, 10))


def test_the_hull_of_two_regions_is_a_box_around_both():
    assert box_hull(box(0, 0, 1, 1), box(3, 3, 4, 4)) == box(0, 0, 4, 4)
    assert box_hull(box(170, 0, -170, 1), box(0, 0, 1, 1)) == box(0, 0, -170, 1)
    assert box_hull(box(170, 0, -170, 1), box(175, 0, 180, 2)) == box(170, 0, -170, 2)
    assert box_hull(box(170, 0, 171, 1), box(-171, 0, -170, 2)) == box(170, 0, -170, 2)
    assert box_hull(box(10, 0, -10, 1), box(-20, 0, 20, 1)) == box(-180, 0, 180, 1)


def test_the_box_around_points_is_the_narrowest():
    assert box_around([Point(8, 47)]) == box(8, 47, 8, 47)
    assert box_around([Point(9, 47), Point(8, 48)]) == box(8, 47, 9, 48)
    assert box_around([Point(179, 1), Point(-179, -1), Point(180, 0)]) == box(179, -1, -179, 1)
    assert box_around([Point(180, 0), Point(-180, 0)]) == box(180, 0, -180, 0)


def test_areas_of_the_same_stretch_are_about_the_same():
    square = polygon([(0, 0), (1, 0), (1, 1), (0, 1)])
    assert area(square) == pytest.approx(area(box(0, 0, 1, 1)), rel=0.001)
    assert area(circle(0.5, 0.5, 55_000)) == pytest.approx(area(square) * 0.77, rel=0.01)
    assert area(box(-180, -90, 180, 90)) == pytest.approx(area(circle(0, 0, 30_000_000)))


@pytest.mark.parametrize("region", [box(0, 0, 1, 1), circle(0, 0, 5), L_SHAPE])
def test_regions_survive_pickling_and_hash_alike(region):
    again = pickle.loads(pickle.dumps(region))
    assert again == region
    assert hash(again) == hash(region)
    assert again.contains(Point(0, 0))
