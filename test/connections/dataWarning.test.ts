import { formatBytesExample, formatJsonExample } from '../../src/connections/dataWarning';

describe('the example of a data warning', () => {
  it.each([
    ['{"t":1}', '{"t":1}'],
    ['{"t":1}\0\n', String.raw`{"t":1}\u0000\u000a`],
    ['\uFEFF\u202E\u001b[31m', String.raw`\ufeff\u202e\u001b[31m`],
    ['', ''],
    ['é'.repeat(300), `${'é'.repeat(200)}… (100 more characters)`],
  ])('shows text with escaped control characters, and only its beginning: %j', (text, shown) => {
    expect(formatBytesExample(Buffer.from(text))).toBe(shown);
  });

  it.each([
    [Buffer.from([1, 0xff]), '0x01ff'],
    [Buffer.alloc(300, 0xff), `0x${'ff'.repeat(100)}… (200 more bytes)`],
  ])('shows bytes that are not text as hexadecimal digits: %#', (bytes, shown) => {
    expect(formatBytesExample(bytes)).toBe(shown);
  });

  it('shows JSON with numbers that JSON does not have', () => {
    expect(formatJsonExample({ t: Number.NaN, u: -Infinity, h: 40 })).toBe('{"t":"NaN","u":"-Infinity","h":40}');
    expect(formatJsonExample(undefined)).toBe('nothing');
  });
});
