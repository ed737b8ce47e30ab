import { openSandbox, type SandboxFixture } from './sandboxFixture';

let fixture: SandboxFixture;
beforeAll(() => (fixture = openSandbox()));
afterAll(async () => await fixture.sandbox.stop());

const BODY = '(input) {\n  return { data: { level: input.bytes[1] } };\n}';

describe('a decoder as it is pasted', () => {
  it.each([
    ['export function', `export function decodeUplink${BODY}`],
    ['export async function', `export async function decodeUplink${BODY}`],
    ['export default function', `export default function decodeUplink${BODY}`],
    ['export default function without a name', `export default { decodeUplink: function ${BODY} };`],
    ['export const', 'export const decodeUplink = (input) => ({ data: { level: input.bytes[1] } });'],
    ['export of helpers', `export const FACTOR = 1;\nexport class Helper {}\nexport function decodeUplink${BODY}`],
    ['a list of exports', `function decodeUplink${BODY}\nexport { decodeUplink };`],
    ['a list of exports in lines', `function decodeUplink${BODY}\nexport {\n  decodeUplink,\n};\n`],
    ['Markdown fences', `\`\`\`js\nfunction decodeUplink${BODY}\n\`\`\`\n`],
    ['Markdown fences without a language', `\n~~~\nfunction decodeUplink${BODY}\n~~~`],
    ['a fence and export', `\`\`\`javascript\nexport function decodeUplink${BODY}\n\`\`\``],
    [
      'console.dir',
      `function decodeUplink(input) {\n  console.dir(input.fPort);\n  return { data: { level: input.bytes[1] } };\n}`,
    ],
    ['bytes and port', 'function decodeUplink(bytes, port) { return { level: bytes[1] }; }'],
    ['bytes and port, with data', 'function decodeUplink(bytes, fPort) { return { data: { level: bytes[1] } }; }'],
    ['port and bytes', 'function decodeUplink(fPort, bytes, variables) { return { level: bytes[1] }; }'],
    [
      'a list with another name, and a port',
      'function decodeUplink(payload, port) { return { data: { level: (payload[0] << 8 | payload [1]) % 256 } }; }',
    ],
    ['only bytes', 'function decodeUplink(bytes) { return { data: { level: bytes[1] } }; }'],
    [
      'bytes with comments',
      'function decodeUplink(bytes /* raw, see (1) */, port // n\n) { return { level: bytes[1] }; }',
    ],
    ['port and a list with another name', 'function decodeUplink(fPort, data) { return { level: data[1] }; }'],
    [
      'a name that begins with that of the parameter',
      'function decodeUplink(i) { const j = i; const a = [j.bytes]; return { data: { level: a[0][1] } }; }',
    ],
    [
      'bytes by their name',
      "function decodeUplink(input) { const name = 'bytes'; return { data: { level: input[name][1] } }; }",
    ],
    [
      'Markdown fences with attributes',
      `\`\`\`js {.numberLines startFrom="1"}\r\nfunction decodeUplink${BODY}\r\n\`\`\`\r\n`,
    ],
    ['bytes and port as an arrow', 'const decodeUplink = (bytes, port) => ({ level: bytes[1] });'],
  ])('works: %s', async (_name, script) => {
    expect(await fixture.data(script)).toEqual({ level: 40 });
  });

  it('passes port and variables to a decoder with the parameters of an older form', async () => {
    const script = 'function decodeUplink(bytes, port, variables) { return { port, unit: variables.unit }; }';
    expect(await fixture.data(script, { fPort: 7, variables: { unit: 'l' } })).toEqual({ port: 7, unit: 'l' });
  });

  it('reports the errors of a decoder with the parameters of an older form', async () => {
    const { error } = await fixture.decode("function decodeUplink(bytes, port) { return { errors: ['too short'] }; }");
    expect(error).toMatchObject({ code: 'decoder_errors', message: 'too short' });
  });

  it('says what to change if it reads the object as a list of bytes', async () => {
    const helper = 'function read(list) {\n  return list[0] << 8 | list[1];\n}\n';
    const { error } = await fixture.decode(
      `${helper}function decodeUplink(bytes) { return { data: { t: read(bytes) } }; }`,
    );
    expect(error).toMatchObject({
      code: 'runtime_error',
      message: expect.stringMatching(/is an object, not a list of bytes: read input\.bytes\[0\]/) as string,
    });
    const keys = 'function decodeUplink(input) { return { data: { keys: Object.keys(input), ...input } }; }';
    expect(await fixture.data(keys)).toEqual({ keys: ['bytes', 'variables'], bytes: [1, 40], variables: {} });
  });

  it('keeps the parameter of the current form, whatever its name is', async () => {
    for (const parameters of [
      'bytes',
      'payload, port',
      '{ bytes }, port',
      'input /* bytes, port */',
      'input = {}, context',
    ])
      expect(
        await fixture.data(
          `function decodeUplink(${parameters}) { return { data: { type: typeof arguments[0].bytes } }; }`,
        ),
      ).toEqual({ type: 'object' });
  });

  it.each([
    ["import { helper } from './helper';\nfunction decodeUplink() {}", 1, /remove `import` and paste what it imports/],
    ["\nimport './helper';\nfunction decodeUplink() {}", 2, /remove `import`/],
    ["export * from './helper';", 1, /remove `export`/],
    ['\nfunction decodeUplink(input: any) {\n  return { data: {} };\n}', 2, /looks like TypeScript/],
    ['function decodeUplink(input) {\n  const level: number = 1;\n}', 2, /looks like TypeScript/],
    ['interface Input { bytes: number[] }\nfunction decodeUplink(input) {}', 1, /looks like TypeScript/],
    ['function helper(a): string {\n  return a;\n}', 1, /looks like TypeScript/],
    ['const a = 1;\nconst b = a as number;', 2, /looks like TypeScript/],
    ['export function decodeUplink(input: Input) {\n}', 1, /looks like TypeScript|SyntaxError/],
    ['function decodeUplink(input) {\n  return { data: { text: \u201Cx\u201D } };\n}', 2, /typographic quotes/],
    ['Some text\n```js\nfunction decodeUplink(input) {}\n```', undefined, /SyntaxError/],
    ['```js\nfunction decodeUplink(input) {\n  return 1 +;\n}\n```', 3, /^SyntaxError/],
    ['export function decodeUplink(input) {\n  return 1 +;\n}', 2, /^SyntaxError/],
  ])('says what to change, with the line: %j', async (script, lineNumber, message) => {
    const { error } = await fixture.decode(script);
    expect(error).toMatchObject({ code: 'syntax_error', message: expect.stringMatching(message) });
    if (lineNumber !== undefined) expect(error?.lineNumber).toBe(lineNumber);
  });

  it('is not changed if it can be compiled', async () => {
    const script = 'function decodeUplink() { return { data: { text: `\nexport function x() {}\n` } }; }';
    expect(await fixture.data(script)).toEqual({ text: '\nexport function x() {}\n' });
  });

  it('has the line numbers of the pasted text in errors at run time', async () => {
    const { error } = await fixture.decode(
      '```js\nexport function decodeUplink(input) {\n  throw new Error("x");\n}\n```',
    );
    expect(error).toMatchObject({ code: 'runtime_error', lineNumber: 3 });
  });
});

describe('an encoder as it is pasted', () => {
  it.each([
    ['export function', 'export function encodeDownlink(input) { return { bytes: [input.data.v] }; }'],
    ['object and port', 'function encodeDownlink(obj, port) { return [obj.v]; }'],
    ['port and object', 'function encodeDownlink(fPort, object) { return [object.v]; }'],
    ['object and port, with bytes', 'function encodeDownlink(object, fPort) { return { bytes: [object.v] }; }'],
  ])('works: %s', async (_name, script) => {
    expect(await fixture.bytes(script)).toEqual([7]);
  });
});
