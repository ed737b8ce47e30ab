import { printJson, showRecord, showTable } from '../../src/cli/output';

// Contains control characters: erase line as C0 and as C1; DEL; line and paragraph separators; bidirectional controls;
// and a tag character beyond 16 bits.
const STEERING = '\u001b[2K \u009b2K \u007f \u2028\u2029 \u202e\u2066\u200f\u061c \u{e0001}';
const UNSAFE = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

function written(show: () => void): string {
  const texts: string[] = [];
  const spy = jest.spyOn(process.stdout, 'write').mockImplementation((text) => texts.push(String(text)) > 0);
  show();
  spy.mockRestore();
  return texts.join('');
}

describe('JSON on stdout', () => {
  const value = { name: STEERING, [STEERING]: [`é 😀 ${STEERING}`] };

  it.each<[string, unknown, () => void]>([
    ['a value', value, () => printJson(value)],
    ['a value with lines', value, () => printJson(value, 2)],
    ['a record', value, () => showRecord(value, { json: true })],
    ['a table', [value], () => showTable([value], ['name'], { json: true })],
  ])('equals that of %s, and contains no terminal control characters', (_, expected, show) => {
    const json = written(show);
    expect(UNSAFE.test(JSON.stringify(expected))).toBe(true);
    expect(json).not.toMatch(UNSAFE);
    expect(JSON.parse(json)).toEqual(expected);
    expect(json).toContain(String.raw`\u001b[2K \u009b2K \u007f \u2028\u2029 \u202e\u2066\u200f\u061c \udb40\udc01`);
    expect(json).toContain('é 😀');
  });

  it('keeps line breaks in readable output', () => {
    expect(written(() => printJson({ a: 'x\ny' }, 2))).toBe('{\n  "a": "x\\ny"\n}\n');
  });
});
