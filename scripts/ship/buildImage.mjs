// Builds the root file system of the last stage of the Dockerfile with Debian's tools, without pulling an image.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { parsePairs, readDockerfile } from './dockerfile.mjs';

// The Debian packages of the base images. They are unpacked and not configured, as distroless does it.
const BASES = {
  'gcr.io/distroless/cc-debian12': {
    debian: '12',
    packages: ['base-files', 'netbase', 'tzdata', 'libc6', 'libssl3', 'libgcc-s1', 'libgomp1', 'libstdc++6'],
  },
};
const IMAGE_ROOT_COMMAND = /^sh scripts\/ship\/imageRoot\.sh dist\/binary "\$TARGETARCH" (\S+)$/;

/**
 * Builds the root file system in the folder `work` and returns how to run it. Debian's packages are cached in `cache`. Throws
 * if the Dockerfile contains an unsupported instruction.
 */
export function buildImage(work, cache) {
  const stages = readDockerfile(readFileSync('Dockerfile', 'utf8'), {
    TARGETARCH: process.arch === 'x64' ? 'amd64' : process.arch,
    COMMIT: 'built-without-an-engine',
  });
  const { from, instructions } = stages.at(-1);
  const image = {
    root: join(work, 'root'),
    from,
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' },
    volumes: [],
    labels: {},
    uid: '0',
    gid: '0',
    workdir: '/',
  };
  unpackBase(from, image.root, cache);
  const buildStage = createBuildStageFiles(stages, work);
  for (const instruction of instructions) applyInstruction(image, instruction, buildStage);
  return image;
}

function unpackBase(from, root, cache) {
  const base = BASES[from];
  if (!base) throw new Error(`unknown base image ${from}: add its packages to scripts/ship/buildImage.mjs`);
  mkdirSync(cache, { recursive: true });
  const listPackages = () => readdirSync(cache).filter((name) => name.endsWith('.deb'));
  if (listPackages().length !== base.packages.length) {
    for (const name of listPackages()) rmSync(join(cache, name));
    const download = () =>
      execFileSync('apt-get', ['download', '-qq', ...base.packages], { cwd: cache, stdio: 'ignore' });
    try {
      download();
    } catch {
      execFileSync('apt-get', ['-o', 'DPkg::Lock::Timeout=120', 'update', '-qq'], { stdio: 'ignore' }); // the package lists are missing or outdated
      download();
    }
  }
  mkdirSync(root, { recursive: true });
  for (const name of listPackages()) execFileSync('dpkg-deb', ['--extract', join(cache, name), root]);
  for (const name of ['doc', 'man', 'lintian', 'bug'])
    rmSync(join(root, 'usr/share', name), { recursive: true, force: true });
  for (const name of ['proc', 'dev', 'sys', 'tmp']) mkdirSync(join(root, name), { recursive: true });
  writeFileSync(
    join(root, 'etc/passwd'),
    'root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n',
  );
}

/** Returns the Debian release of a base image; undefined if the base is unknown. */
export const getDebianRelease = (from) => BASES[from]?.debian;

/**
 * Creates the files that the build stage hands over. The compilation is not repeated: npm run build:binary has already
 * created dist/binary.
 */
function createBuildStageFiles(stages, work) {
  const runs = stages[0].instructions.filter(({ word }) => word === 'RUN').map(({ value }) => value);
  const [, out] = IMAGE_ROOT_COMMAND.exec(runs.at(-1)) ?? [];
  if (!out || !runs.some((run) => run.includes('npm run build:binary')))
    throw new Error('the build stage must end with npm run build:binary and scripts/ship/imageRoot.sh');
  const folder = join(work, 'built');
  execFileSync(
    'sh',
    ['scripts/ship/imageRoot.sh', 'dist/binary', process.arch === 'x64' ? 'amd64' : process.arch, folder],
    { stdio: 'inherit' },
  );
  return { stage: stages[0].name, out, folder };
}

function applyInstruction(image, { word, flags, value }, buildStage) {
  const handlers = {
    ARG: () => {},
    LABEL: () => Object.assign(image.labels, parsePairs(value)),
    ENV: () => Object.assign(image.env, parsePairs(value)),
    USER: () => ([image.uid, image.gid] = value.split(':')),
    WORKDIR: () => mkdirSync(join(image.root, (image.workdir = value)), { recursive: true }),
    VOLUME: () => image.volumes.push(...value),
    EXPOSE: () => (image.ports = value.split(/\s+/)),
    STOPSIGNAL: () => (image.stopSignal = value),
    HEALTHCHECK: () => (image.health = { flags, command: JSON.parse(value.replace(/^CMD\s+/, '')) }),
    ENTRYPOINT: () => (image.entrypoint = value),
    CMD: () => (image.command = value),
    COPY: () => copy(image, flags, value, buildStage),
  };
  if (!handlers[word])
    throw new Error(`${word} in the last stage is not supported: add it to scripts/ship/buildImage.mjs`);
  handlers[word]();
}

function copy(image, flags, value, { stage, out, folder }) {
  const [from, to] = value.split(/\s+/);
  if (flags.from !== stage || !from.startsWith(`${out}/`))
    throw new Error(`COPY ${value} is not supported: only files of ${out} in the stage ${stage} can be copied`);
  const target = join(image.root, to);
  const isNew = !existsSync(target);
  cpSync(join(folder, from.slice(out.length)), target, { recursive: true, verbatimSymlinks: true });
  if (!flags.chown || !isNew) return;
  const [uid, gid] = flags.chown.split(':').map(Number);
  chownSync(target, uid, gid);
  chmodSync(target, Number.parseInt(flags.chmod, 8));
}

/** Finds shells, interpreters and package managers in the root file system. */
export function findShells(root) {
  const names = new Set(['sh', 'ash', 'bash', 'dash', 'busybox', 'zsh', 'perl', 'python3', 'apt', 'dpkg']);
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && names.has(basename(entry.name)) && entry.parentPath.endsWith('bin'))
    .map((entry) => join(entry.parentPath, entry.name));
}
