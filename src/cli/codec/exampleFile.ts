import { exampleOf, type Example } from './example';
import { parseJson, readTextFile } from './textFile';

/** Reads the examples of a file. Throws UsageError when it is no JSON; what is wrong otherwise is among the examples. */
export function readExamples(file: string): Example[] {
  const list = parseJson(readTextFile(file), file);
  if (!Array.isArray(list)) return [{ name: '(the whole file)', result: 'failed', why: `${file}: must be a list of {"description", "input", "output"}` }];
  return list.map((item: unknown, at) => exampleOf(item, at, file));
}
