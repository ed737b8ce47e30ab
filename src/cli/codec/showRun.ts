import { say, sayJson, showRecord } from '../output';
import { plainText } from '../plainText';
import { spacedHex, type Decoding, type Preview } from './workbench';

/** Shows people what an encoder gave. */
export function showPreview({ output, logs, warnings, executionTimeMs }: Preview): void {
  const bytes = output && { bytes: spacedHex(output.bytes), base64: output.bytesBase64, list: `[${output.bytes.join(', ')}]`, fPort: output.fPort };
  showRecord({ ...bytes, time: timeText(executionTimeMs) }, {});
  showLines({ warnings, logs });
}

/** The same of a decoder. */
export function showDecoding({ data, logs, warnings, executionTimeMs }: Decoding): void {
  if (data) sayJson(data, 2);
  showRecord({ time: timeText(executionTimeMs) }, {});
  showLines({ warnings, logs });
}

function timeText(milliseconds: number): string {
  return `${milliseconds.toFixed(2)} ms`;
}

function showLines(lists: Readonly<Record<string, readonly string[]>>): void {
  for (const [name, lines] of Object.entries(lists)) {
    if (lines.length > 0) say([`${name}:`, ...lines.map((line) => `  ${plainText(line, 2000)}`)].join('\n'));
  }
}
