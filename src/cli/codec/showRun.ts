import { print, printJson, showRecord } from '../output';
import { toPlainText } from '../plainText';
import { formatHex, type DecoderResult, type EncoderPreview } from './codecRunner';

/** Prints the result of an encoder. */
export function showPreview({ output, logs, warnings, executionTimeMs }: EncoderPreview): void {
  const fields = output && {
    bytes: formatHex(output.bytes),
    base64: output.bytesBase64,
    list: `[${output.bytes.join(', ')}]`,
    fPort: output.fPort,
  };
  showRecord({ ...fields, time: formatMilliseconds(executionTimeMs) }, {});
  showLines({ warnings, logs });
}

/** Prints the result of a decoder. */
export function showDecoderResult({ data, logs, warnings, executionTimeMs }: DecoderResult): void {
  if (data) printJson(data, 2);
  showRecord({ time: formatMilliseconds(executionTimeMs) }, {});
  showLines({ warnings, logs });
}

function formatMilliseconds(milliseconds: number): string {
  return `${milliseconds.toFixed(2)} ms`;
}

/** Prints each list that is not empty: its name, then its lines. They come from the script, so they are escaped. */
function showLines(lists: Readonly<Record<string, readonly string[]>>): void {
  for (const [name, lines] of Object.entries(lists)) {
    if (lines.length > 0) print([`${name}:`, ...lines.map((line) => `  ${toPlainText(line, 2000)}`)].join('\n'));
  }
}
