// How far computed values are from expected ones. A NaN anywhere makes every
// figure infinite.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ranges>

namespace scoria::test {

namespace detail {
template <class A, class B, class Error>
double fold(const A& expected, const B& actual, const Error& combine) {
    if (std::ranges::size(expected) != std::ranges::size(actual) || std::ranges::empty(expected))
        return std::numeric_limits<double>::infinity();
    double total = 0;
    for (size_t i = 0; i < std::ranges::size(expected); ++i)
        total = combine(total, static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    return std::isnan(total) ? std::numeric_limits<double>::infinity() : total;
}
}  // namespace detail

template <class A> double mean(const A& values) {
    double sum = 0;
    for (const auto value : values) sum += static_cast<double>(value);
    return sum / static_cast<double>(std::ranges::size(values));
}

/// Sum of squared distances from the mean.
template <class A> double squares_about_mean(const A& values) {
    const double centre = mean(values);
    double sum = 0;
    for (const auto value : values)
        sum += (static_cast<double>(value) - centre) * (static_cast<double>(value) - centre);
    return sum;
}

/// Largest |actual - expected| in units of the standard deviation of
/// `expected`.
template <class A, class B> double largest_error(const A& expected, const B& actual) {
    const auto larger = [](double most, double error) {
        return std::isnan(error) || std::isnan(most) ? std::numeric_limits<double>::quiet_NaN()
                                                     : std::max(most, std::abs(error));
    };
    const double deviation =
        std::sqrt(squares_about_mean(expected) / static_cast<double>(std::ranges::size(expected)));
    return detail::fold(expected, actual, larger) / deviation;
}

/// Sum of squared errors over sum of squares, both about their means: softmax
/// ignores a shift of all logits.
template <class A, class B> double nmse_mean_removed(const A& expected, const B& actual) {
    const double squares =
        detail::fold(expected, actual, [](double sum, double error) { return sum + error * error; });
    const double shift = mean(actual) - mean(expected);
    return (squares - shift * shift * static_cast<double>(std::ranges::size(expected))) /
           squares_about_mean(expected);
}

}  // namespace scoria::test
