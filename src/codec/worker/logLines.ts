const MAX_LINES = 100;
const MAX_LOG_BYTES = 8192;

/** The log lines of a script, at most 100 lines and 8 KiB in total. */
export class LogLines {
  private readonly lines: string[] = [];
  private remainingBytes = MAX_LOG_BYTES;
  private lostLines = 0;
  private isLastLineCut = false;

  /** Adds a line, or counts a lost one if called without a line. Returns whether there is space for more. */
  add(line: string | undefined): boolean {
    if (line === undefined || !this.hasSpace) {
      this.lostLines += 1;
      return false;
    }
    const storedLine = truncateToBytes(line, this.remainingBytes);
    this.isLastLineCut = storedLine !== line;
    this.lines.push(storedLine);
    // A cut line uses up the space, even if a character that did not fit left some bytes over.
    this.remainingBytes -= this.isLastLineCut ? this.remainingBytes : Buffer.byteLength(line);
    return this.hasSpace;
  }

  /** Returns a copy, to which lines can be added independently. */
  copy(): LogLines {
    return Object.assign(new LogLines(), this, { lines: [...this.lines] });
  }

  /** The lines, followed by one that says what was cut, if anything was cut. */
  list(): readonly string[] {
    if (this.lostLines === 0 && !this.isLastLineCut) return this.lines;
    const cutParts = [
      this.isLastLineCut ? 'the end of the last line' : '',
      this.lostLines > 0 ? `${this.lostLines} more ${this.lostLines === 1 ? 'line' : 'lines'}` : '',
    ];
    return [
      ...this.lines,
      `(cut: ${cutParts.filter((part) => part !== '').join(' and ')}; the maximum is ${MAX_LINES} lines and ${MAX_LOG_BYTES} bytes)`,
    ];
  }

  private get hasSpace(): boolean {
    return this.lines.length < MAX_LINES && this.remainingBytes > 0;
  }
}

/** Returns the longest prefix with at most `maxBytes` bytes of UTF-8. */
function truncateToBytes(line: string, maxBytes: number): string {
  const encoded = Buffer.from(line);
  if (encoded.length <= maxBytes) return line;
  let end = maxBytes;
  while (end > 0 && ((encoded[end] ?? 0) & 0xc0) === 0x80) end -= 1; // not inside a character: 10xxxxxx continues one
  return encoded.toString('utf8', 0, end);
}
