/** The colours of palette.py: Okabe and Ito's, told apart by colour-blind readers. */
export const COLOURS = [
  "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999933", "#888888",
];

/** On a dark ground the three deep ones are lost; these are the same hues, lighter. */
const LIGHTER: Record<string, string> = { "#0072B2": "#3D9BD9", "#D55E00": "#E8743B", "#009E73": "#1FB58C" };

export function colour(index: number, dark: boolean): string {
  const plain = COLOURS[index % COLOURS.length];
  return dark ? (LIGHTER[plain] ?? plain) : plain;
}

const PERIOD = 24;

/** Dashes with which lines that lie on each other all show; the first is solid (see palette.py). */
export function interleave(place: number, count: number): number[] | undefined {
  const on = (PERIOD * (count - place)) / count;
  return place > 0 ? [on, PERIOD - on] : undefined;
}

/** Once the colours come round again, dashes set the series apart. */
export function dash(index: number): number[] | undefined {
  return index >= COLOURS.length ? [5, 3] : undefined;
}
