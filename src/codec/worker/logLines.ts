const MOST_LINES = 100;
const MOST_BYTES = 8192;

/** Lines that a script wrote, bounded: 100 of them and 8 KiB in all. */
export class LogLines {
  private readonly kept: string[] = [];
  private room = MOST_BYTES;
  private lost = 0;
  private shortened = false;

  /** Adds a line, or counts a lost one when called with none. Answers whether there is room for more. */
  add(line: string | undefined): boolean {
    if (line === undefined || !this.open) {
      this.lost += 1;
      return false;
    }
    const fitting = fit(line, this.room);
    this.shortened = fitting !== line;
    this.kept.push(fitting);
    this.room -= this.shortened ? this.room : Buffer.byteLength(line);
    return this.open;
  }

  /** The lines, and one that says what was cut, if anything was. */
  all(): readonly string[] {
    if (this.lost === 0 && !this.shortened) return this.kept;
    const cut = [this.shortened ? 'the end of the last line' : '', this.lost > 0 ? `${this.lost} more ${this.lost === 1 ? 'line' : 'lines'}` : ''];
    return [...this.kept, `(cut: ${cut.filter((part) => part !== '').join(' and ')}; at most ${MOST_LINES} lines and ${MOST_BYTES} bytes are kept)`];
  }

  private get open(): boolean {
    return this.kept.length < MOST_LINES && this.room > 0;
  }
}

/** The longest beginning that has at most so many bytes of UTF-8. */
function fit(line: string, bytes: number): string {
  const whole = Buffer.from(line);
  if (whole.length <= bytes) return line;
  let end = bytes;
  while (end > 0 && ((whole[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return whole.toString('utf8', 0, end);
}
