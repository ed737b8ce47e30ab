import type { DescEnum } from '@bufbuild/protobuf';

/** An enum value as JSON: its name less the prefix of the enum, in lower case; undefined for a number that the proto does not name. */
export function enumWord(desc: DescEnum, value: number): string | undefined {
  return desc.value[value]?.name.slice(desc.sharedPrefix?.length ?? 0).toLowerCase();
}

/** The words of an enum in the order of the proto, without the one that stands for "not given". */
export function enumWords(desc: DescEnum): string[] {
  return desc.values.filter(({ number }) => number !== 0).map(({ number }) => enumWord(desc, number) as string);
}
