"""Answers on their way: the library gets a window of them, in their order."""

from borzoi.shards.quic.answers import Answers


class Library:
    """Takes everything, and sends only when a test says so."""

    def __init__(self) -> None:
        self.held = 0
        self.streams: dict[int, bytes] = {}
        self.ended: list[int] = []
        self.unwanted: set[int] = set()

    def takes(self, stream_id: int) -> bool:
        return stream_id not in self.unwanted

    def get_send_buffer_size(self) -> int:
        return self.held

    def send_stream_data(self, stream_id: int, data: memoryview, end_stream: bool) -> None:
        assert stream_id not in self.ended, "nothing is said behind an end"
        self.held += len(data)
        self.streams[stream_id] = self.streams.get(stream_id, b"") + bytes(data)
        if end_stream:
            self.ended.append(stream_id)


def test_the_library_holds_a_window_at_most() -> None:
    answers, library = Answers(1000), Library()
    answers.add(0, [b"a" * 700, b"b" * 700])
    answers.end(0)
    answers.add(4, [b"c" * 900])
    answers.end(4)
    answers.pour(library)
    assert (library.held, answers.size) == (1000, 1300)
    answers.pour(library)
    assert library.held == 1000
    library.held = 0
    answers.pour(library)
    assert library.ended == [0]
    library.held = 0
    answers.pour(library)
    assert library.streams == {0: b"a" * 700 + b"b" * 700, 4: b"c" * 900}
    assert library.ended == [0, 4]
    assert (bool(answers), answers.size) == (False, 0)


def test_what_is_dropped_is_not_said() -> None:
    answers, library = Answers(1000), Library()
    answers.add(0, [b"a" * 10])
    answers.add(4, [b"b" * 10])
    assert answers.has(0)
    answers.drop(0)
    assert not answers.has(0)
    assert answers.size == 10
    answers.pour(library)
    assert library.streams == {4: b"b" * 10}


def test_what_a_client_stops_is_left_out() -> None:
    answers, library = Answers(1000), Library()
    answers.add(0, [b"a" * 5000])
    answers.end(0)
    answers.add(4, [b"b" * 10])
    library.unwanted.add(0)
    answers.pour(library)
    assert library.streams == {4: b"b" * 10}
    assert (bool(answers), answers.size, library.ended) == (False, 0, [])


def test_nothing_is_left_of_a_client_that_is_gone() -> None:
    answers = Answers(1000)
    answers.add(0, [b"a" * 10])
    answers.clear()
    assert (bool(answers), answers.size) == (False, 0)
