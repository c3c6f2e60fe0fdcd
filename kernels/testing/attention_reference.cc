#include "kernels/testing/attention_reference.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace tessera::kernels {
namespace {

// A head of queries of one sequence: where its elements are.
struct Head {
  const AttentionCase& c;
  int64_t sequence;
  int64_t head;

  int64_t Query(int64_t i, int64_t channel) const { return Qkv(i, head, channel); }
  int64_t Key(int64_t j, int64_t channel) const { return Qkv(j, c.heads + KvHead(), channel); }
  int64_t Value(int64_t j, int64_t channel) const {
    return Qkv(j, c.heads + c.kv_heads + KvHead(), channel);
  }
  int64_t Out(int64_t i, int64_t channel) const {
    return ((sequence * c.length + i) * c.heads + head) * c.head_size + channel;
  }
  // What dropout multiplies an element of P by.
  double Factor(int64_t i, int64_t j) const {
    const uint64_t element = ((sequence * c.heads + head) * c.length + i) * c.length + j;
    return UnitFloat(c.key.Word(element)) < c.dropout ? 0
                                                      : 1 / (1 - static_cast<double>(c.dropout));
  }

 private:
  int64_t KvHead() const { return head / (c.heads / c.kv_heads); }
  int64_t Qkv(int64_t i, int64_t part, int64_t channel) const {
    return ((sequence * c.length + i) * (c.heads + 2 * c.kv_heads) + part) * c.head_size + channel;
  }
};

struct Row {
  std::vector<double> p;
  double log_sum_exp = 0;
};

Row Softmax(const Head& head, int64_t i, const std::vector<double>& qkv) {
  Row row;
  double sum = 0;
  for (int64_t j = 0; j <= i; ++j) {
    double dot = 0;
    for (int64_t l = 0; l < head.c.head_size; ++l) {
      dot += qkv[head.Query(i, l)] * qkv[head.Key(j, l)];
    }
    row.p.push_back(std::exp(dot / std::sqrt(head.c.head_size)));
    sum += row.p.back();
  }
  for (double& p : row.p) p /= sum;
  row.log_sum_exp = std::log(sum);
  return row;
}

}  // namespace

std::string AttentionCase::Name() const {
  return absl::StrCat(batch, " sequences of ", length, ", ", heads, " heads of ", head_size,
                      " with ", kv_heads, " of keys and values, dropout ", dropout);
}

AttentionResult ReferenceAttention(const AttentionCase& c, const std::vector<double>& qkv) {
  AttentionResult result;
  result.out.resize(static_cast<size_t>(ElementsOf(c.Out())));
  for (int64_t index = 0; index < c.batch * c.heads; ++index) {
    const Head head{c, index / c.heads, index % c.heads};
    for (int64_t i = 0; i < c.length; ++i) {
      const Row row = Softmax(head, i, qkv);
      result.log_sum_exp.push_back(row.log_sum_exp);
      for (int64_t j = 0; j <= i; ++j) {
        const double weight = row.p[j] * (c.dropout > 0 ? head.Factor(i, j) : 1);
        for (int64_t l = 0; l < c.head_size; ++l) {
          result.out[head.Out(i, l)] += weight * qkv[head.Value(j, l)];
        }
      }
    }
  }
  return result;
}

std::vector<double> ReferenceAttentionGradient(const AttentionCase& c,
                                               const std::vector<double>& qkv,
                                               const std::vector<double>& d_out) {
  std::vector<double> gradient(qkv.size());
  for (int64_t index = 0; index < c.batch * c.heads; ++index) {
    const Head head{c, index / c.heads, index % c.heads};
    for (int64_t i = 0; i < c.length; ++i) {
      const Row row = Softmax(head, i, qkv);
      std::vector<double> dp(row.p.size());
      double mean = 0;
      for (int64_t j = 0; j <= i; ++j) {
        const double factor = c.dropout > 0 ? head.Factor(i, j) : 1;
        for (int64_t l = 0; l < c.head_size; ++l) {
          const double d = d_out[head.Out(i, l)];
          dp[j] += d * qkv[head.Value(j, l)] * factor;
          gradient[head.Value(j, l)] += row.p[j] * factor * d;
        }
        mean += row.p[j] * dp[j];
      }
      for (int64_t j = 0; j <= i; ++j) {
        const double ds = row.p[j] * (dp[j] - mean) / std::sqrt(c.head_size);
        for (int64_t l = 0; l < c.head_size; ++l) {
          gradient[head.Query(i, l)] += ds * qkv[head.Key(j, l)];
          gradient[head.Key(j, l)] += ds * qkv[head.Query(i, l)];
        }
      }
    }
  }
  return gradient;
}

}  // namespace tessera::kernels
