// License texts of packages: from their files, or from the table below for packages without a license file.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from './compareText.mjs';

const LICENSE_FILE = /^(licen[sc]e|copying|notice|copyright)[^/]*$/i;
const CODE_FILE = /\.(js|cjs|mjs|ts|json|map)$/;

/** Packages that have no license file. `read` reads a file of the package. */
const TEXTS = {
  '@bufbuild/protobuf': (read) => [
    leadingComment(read('dist/cjs/index.js')),
    readFileSync('node_modules/@opentelemetry/api/LICENSE', 'utf8'), // the text of Apache-2.0
    leadingComment(read('dist/cjs/wire/varint.js')),
  ],
  'abstract-logging': () => [mitLicense('Copyright (c) James Sumners')],
  omggif: (read) => [leadingComment(read('omggif.js'))],
  'pg-types': (read) => [endOfReadme(read('README.md'), '## license')],
  pgpass: (read) => [endOfReadme(read('README.md'), '## License')],
};

/** Further license files of packages, for what they bundle themselves. */
const FURTHER_FILES = { 'swagger-ui-dist': ['swagger-ui-bundle.js.LICENSE.txt'] };

/** Reads the license texts of an installed package. Throws if it has none. */
export function readLicenseTexts(name, folder) {
  const read = (file) => readFileSync(join(folder, file), 'utf8');
  const files = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && LICENSE_FILE.test(entry.name) && !CODE_FILE.test(entry.name))
    .map((entry) => entry.name)
    .toSorted(compareText);
  const texts = [...files, ...(FURTHER_FILES[name] ?? [])].map(read);
  if (texts.length > 0) return texts;
  if (!TEXTS[name])
    throw new Error(
      `${name} has no license file. Add its license text to the table in scripts/notices/licenseTexts.mjs`,
    );
  return TEXTS[name](read);
}

/** The first comment of a source file, without its comment signs. */
export function leadingComment(source) {
  const [comment] =
    /^(?:\s*\/\/[^\n]*\n)+|^\s*\/\*[\s\S]*?\*\//.exec(source.replace(/^\s*['"]use strict['"];\s*/, '')) ?? [];
  if (comment === undefined) throw new Error('the source file does not start with a comment');
  return comment
    .split('\n')
    .map((line) => line.replace(/^\s*(\/\/|\/\*+|\*+\/|\*\*?)\s?/, ''))
    .join('\n');
}

function endOfReadme(readme, heading) {
  const start = readme.indexOf(heading);
  if (start === -1) throw new Error(`the README has no heading "${heading}"`);
  return readme.slice(start + heading.length);
}

const WARRANTY_BSD = `THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS"
AND ANY EXPRESS OR IMPLIED WARRANTIES, INCLUDING, BUT NOT LIMITED TO, THE
IMPLIED WARRANTIES OF MERCHANTABILITY AND FITNESS FOR A PARTICULAR PURPOSE ARE
DISCLAIMED. IN NO EVENT SHALL THE COPYRIGHT HOLDER OR CONTRIBUTORS BE LIABLE
FOR ANY DIRECT, INDIRECT, INCIDENTAL, SPECIAL, EXEMPLARY, OR CONSEQUENTIAL
DAMAGES (INCLUDING, BUT NOT LIMITED TO, PROCUREMENT OF SUBSTITUTE GOODS OR
SERVICES; LOSS OF USE, DATA, OR PROFITS; OR BUSINESS INTERRUPTION) HOWEVER
CAUSED AND ON ANY THEORY OF LIABILITY, WHETHER IN CONTRACT, STRICT LIABILITY,
OR TORT (INCLUDING NEGLIGENCE OR OTHERWISE) ARISING IN ANY WAY OUT OF THE USE
OF THIS SOFTWARE, EVEN IF ADVISED OF THE POSSIBILITY OF SUCH DAMAGE.`;

/** The text of BSD-2-Clause in SPDX. */
export const bsd2License = (copyright) => `${copyright}

Redistribution and use in source and binary forms, with or without
modification, are permitted provided that the following conditions are met:

1. Redistributions of source code must retain the above copyright notice, this
   list of conditions and the following disclaimer.

2. Redistributions in binary form must reproduce the above copyright notice,
   this list of conditions and the following disclaimer in the documentation
   and/or other materials provided with the distribution.

${WARRANTY_BSD}`;

/** The text of MIT in SPDX. */
export const mitLicense = (copyright) => `MIT License

${copyright}

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.`;
