// Numbers as people read them. GB is 10^9 bytes; KiB and MiB say so.
'use strict';

function digits(value, count) {
  return value.toLocaleString(
      'en-US', {minimumFractionDigits: count, maximumFractionDigits: count});
}

function rateText(gbPerS) { return digits(gbPerS, gbPerS < 0.1 ? 4 : gbPerS < 10 ? 2 : 1); }

function timeText(ns) {
  for (const [unit, size] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]]) {
    if (Math.abs(ns) >= size)
      return `${digits(ns / size, ns / size < 10 ? 2 : ns / size < 100 ? 1 : 0)} ${unit}`;
  }
  return `${digits(ns, 0)} ns`;
}

// For the ticks of an axis: 100 µs, 1 ms.
function shortTimeText(ns) {
  const [unit, size] = ns >= 1e9 ? ['s', 1e9] :
      ns >= 1e6                  ? ['ms', 1e6] :
      ns >= 1e3                  ? ['µs', 1e3] :
                                   ['ns', 1];
  return `${+ (ns / size).toPrecision(3)} ${unit}`;
}

// 8192 is 8k, as the command line takes it.
function tokensText(tokens) {
  return tokens >= 1024 && tokens % 1024 === 0 ? `${tokens / 1024}k` : digits(tokens, 0);
}

function sizeText(bytes) {
  for (const [unit, size] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]]) {
    if (bytes >= size) return `${+ (bytes / size).toFixed(2)} ${unit}`;
  }
  return `${bytes} B`;
}

function percentText(share) { return `${digits(100 * share, 0)} %`; }

function countText(count, one, many) { return `${digits(count, 0)} ${count === 1 ? one : many}`; }

function median(values) {
  const sorted = values.slice().sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function unique(values) { return [...new Set(values)]; }
