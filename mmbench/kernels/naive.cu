// /// kernel
// summary   = "One thread computes one element of C and reads all its operands from global memory."
// after     = "uncoalesced"
// arguments = ["A", "B", "C", "int M", "int N", "int K"]
// default   = true
//
// [params]
// TILE_SIZE = [8, 16, 32]             # edge of the thread block; nothing is staged in it
//
// [launch]
// block = ["TILE_SIZE", "TILE_SIZE"]
// grid  = ["ceil_div(N, TILE_SIZE)", "ceil_div(M, TILE_SIZE)"]
//
// [traffic]                           # elements requested from global memory
// reads  = "2 * M * N * K"
// writes = "M * N"
// ///
//
// Idea. The definition of the product, a thread for each element: C[row][col] is the dot
// product of a row of A and a column of B. Every thread fetches all 2K operands itself, so
// an element of A is requested N times and an element of B M times: 2*M*N*K requests for
// M*K + K*N elements. Caches answer most of them, but each is still an instruction that
// the load units must execute.
//
// Who owns what, for blocks of 4 x 4 threads:
//
//            B  K x N                     each thread of block (bx, by)
//          +---+-#-+---+                  reads a whole row of A and
//          |   | # |   |                  a whole column of B
//          +---+-#-+---+
//   A  M x K       C  M x N
//   +---------+    +---+---+---+   row = by * 4 + ty    (0 <= ty < 4)
//   |         |    |   |   |   |   col = bx * 4 + tx    (0 <= tx < 4)
//   |#########|    +---+-#-+---+
//   |         |    |   |   |   |
//   +---------+    +---+---+---+

__global__ void matmul_naive(const float *A, const float *B, float *C, int M, int N, int K)
{
    // x is the fastest-running thread index, so the 32 threads of a warp take 32
    // neighbouring columns: that is what makes the accesses to B and C below coalesced.
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;

    // The last blocks reach past the edge of C where M or N is no multiple of the block.
    if (row >= M || col >= N) return;

    float acc = 0.0f;
    for (int k = 0; k < K; ++k) {
        // A: threads of a row read one and the same element, a broadcast: one 32-byte sector.
        // B: neighbouring threads read neighbouring elements, coalesced: 32 floats, 4 sectors.
        acc += A[row * K + k] * B[k * N + col];
    }
    // Neighbouring threads write neighbouring elements: coalesced.
    C[row * N + col] = acc;
}
