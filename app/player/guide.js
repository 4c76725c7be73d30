// How the player's picture is read.

export const GUIDE = {
  tile: "one block of S = Q Kᵀ: a query tile meets a key tile",
  framed: "the tile at work now",
  mauve: "done; the stronger, the more softmax mass of its rows lies in it",
  hatched: "hidden by the mask: whole tiles are skipped, halves are masked",
  O: "pale while it accumulates, full when written for good; where it comes and goes, every part is one rewrite",
  "requested from L2": "bytes that one head's tiles request, counted; 1 MB = 10⁶ bytes",
  "crosses HBM":
    "what of that L2 cannot answer, modelled: a tile that a kernel touches for the first time, one that L2 has lost since, and what is written",
  striped: "written; the rest of a bar is read",
  "on chip":
    "what one thread block keeps on its SM, modelled; 1 kB = 1,000 bytes, so the 227 KiB that a block of an H200 may use are 232 kB",
  pipes:
    "as thick as they are fast: HBM at its peak, L2 at what all SMs together can take from it, as the sidebar's figures of the GPU have it with their sources; the inner part is what kernels reach, fitted on an H200. A tile from HBM is one that crosses, one from L2 was answered there",
  "pale bars": "the whole run; the other algorithms stand at the same share of their own modelled time",
  "1×": "one tile per second; in the race, the slowest takes 24 s",
};

const { tile, framed, hatched, pipes } = GUIDE;

/** The same of a backward pass, which has gradients. */
export const BACKWARD_GUIDE = {
  ...{ tile, framed },
  mauve:
    "done: pale by kernel 2, full by kernel 3; the stronger, the more softmax mass of its rows lies in it",
  hatched,
  striped: "a gradient, in the colour of its tensor: pale while it accumulates, full when written",
  δ: "one number per row, rowsum(dO ∘ O)",
  "requested from L2": `${GUIDE["requested from L2"]}; K, V, dK and dV of kernel 2 count once for all heads that share them`,
  "crosses HBM": GUIDE["crosses HBM"],
  "on chip": GUIDE["on chip"],
  pipes,
  "must move": "at least, by a closed form: each of its kernels reads its inputs and writes its outputs once",
  "1×": "one tile per second",
};
