// Texts whose contrast with what is behind them is below 4.5 (WCAG 2, AA).
() => {
  const parse = (text) => {
    const found = text.match(/[\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), alpha: found[3] ?? 1 };
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((one) => {
      const share = one / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = parse(getComputedStyle(one).backgroundColor);
      if (color.alpha > 0.99) return color.rgb;
    }
    return [255, 255, 255];
  };
  const wrong = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!own || box.width < 2 || box.height < 2) continue;
    const colors = [parse(getComputedStyle(element).color).rgb, ground(element)].map(light);
    const [more, less] = colors.sort((one, other) => other - one);
    const ratio = (more + 0.05) / (less + 0.05);
    if (ratio < 4.5) wrong.push(`${element.outerHTML.slice(0, 80)}: ${ratio.toFixed(2)}`);
  }
  return wrong;
}
