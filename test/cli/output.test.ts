import { sayJson, showRecord, showTable } from '../../src/cli/output';

// Erases a line, as C0 and as C1; DEL; line and paragraph separators; marks that turn the direction of a text; a tag beyond 16 bits.
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
    ['a value', value, () => sayJson(value)],
    ['a value with lines', value, () => sayJson(value, 2)],
    ['a record', value, () => showRecord(value, { json: true })],
    ['a table', [value], () => showTable([value], ['name'], { json: true })],
  ])('is that of %s, and holds nothing that would steer a terminal', (_, shown, show) => {
    const json = written(show);
    expect(UNSAFE.test(JSON.stringify(shown))).toBe(true);
    expect(json).not.toMatch(UNSAFE);
    expect(JSON.parse(json)).toEqual(shown);
    expect(json).toContain(String.raw`\u001b[2K \u009b2K \u007f \u2028\u2029 \u202e\u2066\u200f\u061c \udb40\udc01`);
    expect(json).toContain('é 😀');
  });

  it('keeps the lines that people read', () => {
    expect(written(() => sayJson({ a: 'x\ny' }, 2))).toBe('{\n  "a": "x\\ny"\n}\n');
  });
});
