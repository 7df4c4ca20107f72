#include <cstdio>
#include <utility>
#include <vector>

// A program as it was: its own storage, conversion and product, and a main that measures them.
struct Pairs {
  std::vector<std::vector<std::pair<int, double>>> rows;
};

Pairs convert(int rows, const int* row_ptr, const int* columns, const double* values) {
  Pairs a{std::vector<std::vector<std::pair<int, double>>>(rows)};
  for (int row = 0; row < rows; ++row)
    for (int k = row_ptr[row]; k < row_ptr[row + 1]; ++k) a.rows[row].push_back({columns[k], values[k]});
  return a;
}

void multiply(const Pairs& a, const double* x, double* y) {
  for (size_t row = 0; row < a.rows.size(); ++row) {
    y[row] = 0;
    for (const auto& [column, value] : a.rows[row]) y[row] += value * x[column];
  }
}

int main() { std::printf("reads a file, measures and prints\n"); }
