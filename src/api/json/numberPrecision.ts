const HAS_POINT_OR_EXPONENT = /[.eE]/;
const HAS_NONZERO_DIGIT = /^[^eE]*[1-9]/;

/**
 * Returns why a double cannot represent the number of a JSON text, as a violation; undefined if it can. Digits after a
 * point and numbers with an exponent may be rounded, as usual; a whole number without both must be exact.
 */
export function findPrecisionViolation(text: string): string | undefined {
  const value = Number(text);
  if (!Number.isFinite(value)) return 'is too large for a number: send an absolute value of at most 1.7e308';
  if (!Number.isInteger(value)) return undefined;
  if (value === 0)
    return HAS_NONZERO_DIGIT.test(text)
      ? 'is so close to 0 that it would become 0: send 0 or a larger absolute value'
      : undefined;
  if (Number.isSafeInteger(value) || HAS_POINT_OR_EXPONENT.test(text)) return undefined;
  // A whole number without exponent: it is exact if the double has the same value.
  return BigInt(text) === BigInt(value)
    ? undefined
    : 'is a whole number that cannot be stored exactly: send an absolute value of at most 9007199254740991, or a string';
}
