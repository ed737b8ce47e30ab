// Libraries that packages carry as compiled code. npm does not list them, so this table does.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { bsd2License, leadingComment } from './licenseTexts.mjs';

/** For each package the version that was examined, and what its compiled code contains. */
const EMBEDDED = {
  'better-sqlite3': {
    examined: '13.2.0',
    libraries: (read) => {
      const header = read('deps/sqlite3/sqlite3.h');
      const version = /#define SQLITE_VERSION\s+"([^"]+)"/.exec(header)[1];
      const notice = leadingComment(header.replace(/\n\*{10,}[\s\S]*?\*\//, '\n*/')); // without the text about the header file
      return [{ name: 'SQLite', version, license: 'blessing', purl: `pkg:generic/sqlite@${version}`, texts: [notice] }];
    },
  },
  '@jitl/quickjs-wasmfile-release-sync': {
    examined: '0.32.0',
    libraries: (read) => [
      {
        name: 'QuickJS',
        version: '2025-09-13',
        license: 'MIT',
        purl: 'pkg:generic/quickjs@2025-09-13',
        texts: [read('LICENSE')],
      },
    ],
  },
  '@jsquash/avif': {
    examined: '2.1.1',
    libraries: () => [
      {
        name: 'libavif',
        version: '1.0.1',
        license: 'BSD-2-Clause',
        purl: 'pkg:github/AOMediaCodec/libavif@v1.0.1',
        texts: [
          bsd2License('Copyright 2019 Joe Drago. All rights reserved.'),
          bsd2License('src/obu.c: Copyright © 2018-2019, VideoLAN and dav1d authors. All rights reserved.'),
        ],
      },
      {
        name: 'libaom',
        version: '3.7.0',
        license: 'BSD-2-Clause',
        purl: 'pkg:generic/libaom@3.7.0',
        texts: [
          bsd2License('Copyright (c) 2016, Alliance for Open Media. All rights reserved.'),
          'Its members grant a patent license: https://aomedia.org/license/patent-license/',
        ],
      },
    ],
  },
  '@jsquash/jpeg': {
    examined: '1.6.0',
    libraries: (read) => [
      {
        name: 'MozJPEG',
        version: '3.3.1',
        license: 'IJG AND BSD-3-Clause AND Zlib',
        purl: 'pkg:github/mozilla/mozjpeg@v3.3.1',
        texts: [
          'This software is based in part on the work of the Independent JPEG Group.',
          read('codec/LICENSE.codec.md'),
        ],
      },
    ],
  },
  '@jsquash/png': {
    examined: '3.1.1',
    libraries: (read) =>
      Object.entries({
        crc32fast: '1.3.2',
        dlmalloc: '0.2.6',
        fdeflate: '0.3.3',
        flate2: '1.0.28',
        miniz_oxide: '0.7.1',
        png: '0.17.10',
      }).map(([name, version]) => ({
        name,
        version,
        license: 'MIT OR Apache-2.0',
        purl: `pkg:cargo/${name}@${version}`,
        texts: [read('LICENSE')],
      })),
  },
  '@jsquash/webp': {
    examined: '1.5.0',
    libraries: (read) => [
      {
        name: 'libwebp',
        version: '1.0.2',
        license: 'BSD-3-Clause',
        purl: 'pkg:github/webmproject/libwebp@v1.0.2',
        texts: [read('codec/LICENSE.codec.md')],
      },
    ],
  },
};

/** Returns the libraries inside a package. Throws if the package is of a version that was not examined. */
export function listEmbeddedLibraries({ name, version, folder }) {
  const entry = EMBEDDED[name];
  if (!entry) return [];
  if (entry.examined !== version)
    throw new Error(
      `${name} is now ${version}. Check which libraries its compiled code contains, then set "examined" in scripts/notices/embeddedLibraries.mjs`,
    );
  return entry.libraries((file) => readFileSync(join(folder, file), 'utf8'));
}
