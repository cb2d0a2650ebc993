/** Numbers for axes and for the values under the pointer. */

const PREFIXES: [number, string][] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Write the ticks of an axis in one unit, with just the digits that tell them apart. */
export function tickLabels(ticks: number[]): string[] {
  const largest = Math.max(0, ...ticks.map(Math.abs));
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : largest;
  if (largest >= 1e15 || (largest > 0 && largest < 1e-3)) {
    return ticks.map((value) => (value === 0 ? "0" : value.toPrecision(3)));
  }
  const [unit, prefix] = largest < 1e4 ? [1, ""] : (PREFIXES.find(([size]) => largest >= size) ?? [1, ""]);
  return ticks.map((value) => (value === 0 ? "0" : (value / unit).toFixed(digits(step / unit)) + prefix));
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

/** Count the decimals that multiples of a step need. */
function digits(step: number): number {
  for (let count = 0; count < 8; count++) {
    const scaled = step * 10 ** count;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * Math.max(1, scaled)) return count;
  }
  return 8;
}
