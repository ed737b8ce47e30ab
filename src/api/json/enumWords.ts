import type { DescEnum } from '@bufbuild/protobuf';

/**
 * Returns an enum value as JSON: its name in lower case without the prefix of the enum; undefined for a number that the
 * proto does not declare.
 */
export function getEnumWord(desc: DescEnum, value: number): string | undefined {
  return desc.value[value]?.name.slice(desc.sharedPrefix?.length ?? 0).toLowerCase();
}

/** Lists the JSON names of an enum in the order of the proto, without the value 0, which means "not set". */
export function listEnumWords(desc: DescEnum): string[] {
  return desc.values.filter(({ number }) => number !== 0).map(({ number }) => getEnumWord(desc, number) as string);
}
