const HAS_POINT_OR_EXPONENT = /[.eE]/;
const HAS_DIGIT_BUT_ZERO = /^[^eE]*[1-9]/;

/** Why a double cannot stand for the number of a JSON text, as the end of a sentence about it; undefined where it can. */
export function numberFault(text: string): string | undefined {
  const value = Number(text);
  if (!Number.isFinite(value)) return 'is a number beyond all that can be held; send one of at most 1.7e308 in size';
  if (!Number.isInteger(value)) return undefined;
  if (value === 0) return HAS_DIGIT_BUT_ZERO.test(text) ? 'is a number so small that it would become 0; send 0 or a greater one' : undefined;
  if (Number.isSafeInteger(value) || HAS_POINT_OR_EXPONENT.test(text)) return undefined;
  return BigInt(text) === BigInt(value) ? undefined : 'is a whole number that cannot be held exactly; send one of at most 9007199254740991 in size, or a text';
}
