/**
 * Creates an encoder of this many bytes in the style of vendors: a table with a function for each setting. It encodes the
 * setting that `data.setting` names.
 */
export function createEncoder(bytes: number): string {
  const parts = ['var setters = {};', 'function word(bytes, value) { bytes.push((value >> 8) & 0xff, value & 0xff); }'];
  const end =
    'function encodeDownlink(input) { var bytes = [1]; setters[input.data.setting](bytes, input.data); return { bytes: bytes, fPort: input.fPort || 10 }; }';
  let length = parts.join('\n').length + end.length + 1;
  for (let at = 0; ; at += 1) {
    const part = [
      `setters.setting${at} = function (bytes, data) {`,
      `  // Setting ${at}: a value with one digit behind the point, limited to what the device takes.`,
      `  var value = Math.round((data.value + ${at % 7}) * 10);`,
      `  if (value < -${400 + at}) { value = -${400 + at}; } else if (value > ${1250 + at}) { value = ${1250 + at}; }`,
      `  bytes.push(${at % 256}, data.keep ? 0x80 : 0x00); word(bytes, value);`,
      '};',
    ].join('\n');
    if (length + part.length + 1 > bytes) break;
    parts.push(part);
    length += part.length + 1;
  }
  return [...parts, end].join('\n').padEnd(bytes, '\n');
}

/** Scripts that never end, each for another reason. */
export const HOSTILE_ENCODERS: readonly string[] = [
  'function encodeDownlink() { while (true) {} }',
  "function encodeDownlink() { return new Array(Math.pow(2, 28)).join('ab'); }",
  "function encodeDownlink() { return /^(a+)+$/.test(new Array(40).join('a') + 'b'); }",
  'function encodeDownlink() { var all = []; while (true) { all.push(new Uint8Array(65536)); } }',
];
