/** Numbers for axes and for the value under the pointer. */

const PREFIXES: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Write ticks with just the digits that tell them apart. */
export function tickLabels(ticks: number[]): string[] {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1;
  return ticks.map((value) => {
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size < 1e-4 || size >= 1e15) return value.toPrecision(3);
    for (const [unit, prefix] of PREFIXES) {
      if (size >= unit && (unit > 1e3 || size >= 1e4)) {
        return (value / unit).toFixed(digits(step / unit)) + prefix;
      }
    }
    return value.toFixed(digits(step));
  });
}

/** Write one value with four significant digits. */
export function figure(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-4 || size >= 1e7) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return value.toPrecision(4);
}

function digits(step: number): number {
  return Math.min(8, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
}
