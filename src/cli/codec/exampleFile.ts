import { parseExample, type Example } from './example';
import { parseJson, readTextFile } from './textFile';

/** Reads the examples of a file. Throws UsageError if it is not JSON; other errors are reported as examples. */
export function readExamples(file: string): Example[] {
  const list = parseJson(readTextFile(file), file);
  if (!Array.isArray(list))
    return [
      {
        name: '(file)',
        result: 'failed',
        reason: `${file}: must be a list of {"description", "input", "output"}`,
      },
    ];
  return list.map((item: unknown, index) => parseExample(item, index, file));
}
