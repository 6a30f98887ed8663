// /// kernel
// summary   = "A thread an element, x walking the rows: neighbouring threads, scattered accesses."
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
//
// [params]
// TILE_SIZE = [8, 16, 32]             # edge of the thread block; nothing is staged in it
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid  = ["ceil_div(M, TILE_SIZE)", "ceil_div(N, TILE_SIZE)"]
//
// [traffic]                           # elements requested from global memory
// reads  = "2 * M * N * K"
// writes = "M * N"
// ///
//
// Idea. The mapping that comes to mind first, and where the ladder begins: x is the row, y the
// column. It requests exactly the elements that naive requests; only the two lines that turn a
// thread's index into row and col are swapped. The 32 threads of a warp sit below each other in
// C instead of side by side, so each access goes to 32 pieces of memory, N elements apart.
// Memory is moved in sectors of 32 bytes (8 floats), so 7/8 of every sector is waste.
//
// Who owns what, for blocks of 4 x 4 threads (the numbers are threadIdx.x):
//
//        naive               uncoalesced
//     C +---------+        C +---------+
//       | 0 1 2 3 |          | 0 0 0 0 |     a warp's accesses to C and A
//       | 0 1 2 3 |          | 1 1 1 1 |     run down a column, one sector each
//       | 0 1 2 3 |          | 2 2 2 2 |
//       | 0 1 2 3 |          | 3 3 3 3 |
//       +---------+          +---------+

__global__ void matmul_uncoalesced(const float *A, const float *B, float *C, int M, int N, int K)
{
    // Neighbouring threads take neighbouring ROWS: compare with naive.
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int col = blockIdx.y * blockDim.y + threadIdx.y;

    // The last blocks reach past the edge of C where M or N is no multiple of the block.
    if (row >= M || col >= N) return;

    float acc = 0.0f;
    for (int k = 0; k < K; ++k) {
        // A: neighbouring threads are K elements apart, strided: one sector for each thread.
        // B: threads with the same y read one and the same element, a broadcast.
        acc += A[row * K + k] * B[k * N + col];
    }
    // Neighbouring threads are N elements apart, strided: one sector for each thread.
    C[row * N + col] = acc;
}
