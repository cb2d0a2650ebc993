/** The colours and the font of the page around us, and word when they change. */

export interface Theme {
  ink: string;
  faint: string;
  grid: string;
  font: string;
  dark: boolean;
}

/** Read what style.css made of the page's variables. */
export function readTheme(root: HTMLElement): Theme {
  const style = getComputedStyle(root);
  const faint = getComputedStyle(root.querySelector(".nbd-head") ?? root);
  return {
    ink: style.color,
    faint: faint.color,
    grid: style.borderTopColor,
    font: `11px ${style.fontFamily}`,
    dark: brightness(style.color) > 0.5,
  };
}

/** Call back whenever the theme may have changed; return how to stop. */
export function watchTheme(changed: () => void): () => void {
  // A theme's style sheet may still load when its name is already on the body.
  const soon = () => {
    requestAnimationFrame(changed);
    setTimeout(changed, 300);
  };
  const observer = new MutationObserver(soon);
  const options = {
    attributes: true,
    attributeFilter: ["data-jp-theme-name", "data-jp-theme-light", "data-vscode-theme-kind", "data-theme", "class"],
  };
  observer.observe(document.body, options);
  observer.observe(document.documentElement, options);
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", soon);
  return () => {
    observer.disconnect();
    media.removeEventListener("change", soon);
  };
}

export function sameTheme(a: Theme, b: Theme): boolean {
  return a.ink === b.ink && a.faint === b.faint && a.grid === b.grid && a.font === b.font;
}

function brightness(colour: string): number {
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  return (0.299 * r + 0.587 * g + 0.114 * b) / 255;
}
