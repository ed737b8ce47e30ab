/** Orders texts by their code units, the same on every machine. */
export const compareText = (a, b) => (a < b ? -1 : Number(a > b));
