// The licenses that Plantroom may ship, and the check of SPDX expressions against them.

export const ALLOWED_LICENSES = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'Unicode-3.0',
  'Unicode-DFS-2016',
]);

/** Licenses that are allowed for one component only. Each entry needs a reason. */
export const LICENSE_EXCEPTIONS = [
  { component: 'SQLite', license: 'blessing', reason: 'SQLite is in the public domain; SPDX calls its notice so.' },
  {
    component: 'MozJPEG',
    license: 'IJG',
    reason: 'A permissive license that asks for the notice that is in its text.',
  },
  { component: 'MozJPEG', license: 'Zlib', reason: 'A permissive license; it covers the SIMD code of libjpeg-turbo.' },
];

/**
 * Returns what is wrong with the license of a component, or undefined if the license is allowed.
 * With OR one side must be allowed, with AND both sides.
 */
export function findLicenseViolation({ name, license }) {
  if (typeof license !== 'string' || license.trim() === '') return 'no license is declared';
  const allowed = new Set([
    ...ALLOWED_LICENSES,
    ...LICENSE_EXCEPTIONS.filter(({ component }) => component === name).map(({ license }) => license),
  ]);
  try {
    return isExpressionAllowed(license, allowed) ? undefined : `the license ${license} is not allowed`;
  } catch {
    return `the license "${license}" is not an SPDX expression`;
  }
}

/** Evaluates an SPDX expression: `MIT OR (Apache-2.0 AND BSD-3-Clause)`. AND binds tighter than OR. */
function isExpressionAllowed(expression, allowed) {
  const tokens = expression.match(/[()]|[^\s()]+/g) ?? [];
  let position = 0;

  function readOr() {
    let isAllowed = readAnd();
    while (tokens[position] === 'OR') {
      position += 1;
      const isRightAllowed = readAnd();
      isAllowed ||= isRightAllowed;
    }
    return isAllowed;
  }

  function readAnd() {
    let isAllowed = readLicense();
    while (tokens[position] === 'AND') {
      position += 1;
      const isRightAllowed = readLicense();
      isAllowed &&= isRightAllowed;
    }
    return isAllowed;
  }

  function readLicense() {
    const token = tokens[position];
    position += 1;
    if (token === '(') {
      const isAllowed = readOr();
      if (tokens[position] !== ')') throw new Error('a bracket is not closed');
      position += 1;
      return isAllowed;
    }
    if (token === undefined || !/^[A-Za-z0-9.+:-]+$/.test(token) || /^(AND|OR|WITH)$/.test(token))
      throw new Error('a license identifier is missing');
    if (tokens[position] !== 'WITH') return allowed.has(token);
    // An exception of SPDX only grants more rights, but each one must be listed to be allowed.
    const withException = `${token} WITH ${tokens[position + 1]}`;
    position += 2;
    return allowed.has(withException);
  }

  const isAllowed = readOr();
  if (position !== tokens.length) throw new Error('unexpected text after the end of the expression');
  return isAllowed;
}
