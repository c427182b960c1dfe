import lz4.frame
import numpy as np
import pytest

from slipstream.storage.codec.images import compress_image, compress_image_seq, decompress_image, decompress_image_seq
from slipstream.storage.codec.registry import CodecError


def test_an_image_comes_back():
    image = np.arange(84 * 84, dtype=np.uint8).reshape(84, 84)
    data = compress_image(image, level=3)
    assert isinstance(data, bytes) and len(data) < image.nbytes
    assert (decompress_image(data, (84, 84)) == image).all()
    assert (decompress_image(data) == image.ravel()).all()
    assert lz4.frame.decompress(data) == image.tobytes()  # as in the documents


def test_a_sequence_comes_back_from_an_array_and_from_a_list():
    images = np.random.default_rng(0).normal(size=(5, 2, 3)).astype(np.float32)
    images[2, 0] = [np.nan, -0.0, 0.0]
    for form in (images, list(images), images[::-1][::-1]):
        back = decompress_image_seq(compress_image_seq(form), (2, 3), 5, dtype=np.float32)
        assert back.tobytes() == images.tobytes() and back.shape == images.shape


def test_wrong_shapes_and_bytes_are_told():
    data = compress_image_seq(np.zeros((4, 10, 10), np.uint8))
    with pytest.raises(CodecError, match="need 500 bytes, the data have 400"):
        decompress_image_seq(data, (10, 10), 5)
    with pytest.raises(CodecError):
        decompress_image(b"not a frame at all", (4,))
    with pytest.raises(CodecError):
        decompress_image(data[:-9], (4, 10, 10))


def test_a_size_that_the_data_cannot_have_is_refused():
    data = bytearray(lz4.frame.compress(bytes(100), store_size=True))
    data[6:14] = (1 << 60).to_bytes(8, "little")  # the content size, in the frame's header
    with pytest.raises(CodecError):
        decompress_image(bytes(data))
