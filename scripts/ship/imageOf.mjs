// Builds the root file system of the Dockerfile's last stage by Debian's own tools, instruction by instruction, where no image can be fetched.
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pairsOf, readDockerfile } from './dockerfile.mjs';

// What the base images are made of: Debian's packages, unpacked and never configured, which is how distroless makes its own.
const BASES = { 'gcr.io/distroless/cc-debian12': { debian: '12', packages: ['base-files', 'netbase', 'tzdata', 'libc6', 'libssl3', 'libgcc-s1', 'libgomp1', 'libstdc++6'] } };
const LAYOUT = /^sh scripts\/ship\/imageRoot\.sh dist\/binary "\$TARGETARCH" (\S+)$/;

/** Builds it below `work` and says how to run it. Debian's packages are kept in `cache`. Throws where the Dockerfile does what is not known here. */
export function buildImage(work, cache) {
  const stages = readDockerfile(readFileSync('Dockerfile', 'utf8'), { TARGETARCH: process.arch === 'x64' ? 'amd64' : process.arch, COMMIT: 'tried-without-an-engine' });
  const { from, instructions } = stages.at(-1);
  const image = { root: join(work, 'root'), from, env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }, volumes: [], labels: {}, uid: '0', gid: '0', workdir: '/' };
  layBase(from, image.root, cache);
  const built = builtBy(stages, work);
  for (const instruction of instructions) follow(image, instruction, built);
  return image;
}

function layBase(from, root, cache) {
  const base = BASES[from];
  if (!base) throw new Error(`the base ${from} is not known here; say in scripts/ship/imageOf.mjs what it is made of`);
  mkdirSync(cache, { recursive: true });
  const has = () => readdirSync(cache).filter((name) => name.endsWith('.deb'));
  if (has().length !== base.packages.length) {
    for (const name of has()) rmSync(join(cache, name));
    const download = () => execFileSync('apt-get', ['download', '-qq', ...base.packages], { cwd: cache, stdio: 'ignore' });
    try {
      download();
    } catch {
      execFileSync('apt-get', ['-o', 'DPkg::Lock::Timeout=120', 'update', '-qq'], { stdio: 'ignore' }); // its lists are empty or old
      download();
    }
  }
  mkdirSync(root, { recursive: true });
  for (const name of has()) execFileSync('dpkg-deb', ['--extract', join(cache, name), root]);
  for (const name of ['doc', 'man', 'lintian', 'bug']) rmSync(join(root, 'usr/share', name), { recursive: true, force: true });
  for (const name of ['proc', 'dev', 'sys', 'tmp']) mkdirSync(join(root, name), { recursive: true });
  writeFileSync(join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n');
}

/** Which Debian the packages must come from, for a base; undefined: the base is not known. */
export const debianOf = (from) => BASES[from]?.debian;

/** What the build stage hands over. Its compilation is not repeated: npm run build:binary made dist/binary, the same command. */
function builtBy(stages, work) {
  const runs = stages[0].instructions.filter(({ word }) => word === 'RUN').map(({ value }) => value);
  const [, out] = LAYOUT.exec(runs.at(-1)) ?? [];
  if (!out || !runs.some((run) => run.includes('npm run build:binary'))) throw new Error('the build stage must end with npm run build:binary and scripts/ship/imageRoot.sh: what it hands over is not known otherwise');
  const folder = join(work, 'built');
  execFileSync('sh', ['scripts/ship/imageRoot.sh', 'dist/binary', process.arch === 'x64' ? 'amd64' : process.arch, folder], { stdio: 'inherit' });
  return { stage: stages[0].name, out, folder };
}

function follow(image, { word, flags, value }, built) {
  const known = {
    ARG: () => {},
    LABEL: () => Object.assign(image.labels, pairsOf(value)),
    ENV: () => Object.assign(image.env, pairsOf(value)),
    USER: () => ([image.uid, image.gid] = value.split(':')),
    WORKDIR: () => mkdirSync(join(image.root, (image.workdir = value)), { recursive: true }),
    VOLUME: () => image.volumes.push(...value),
    EXPOSE: () => (image.ports = value.split(/\s+/)),
    STOPSIGNAL: () => (image.stopSignal = value),
    HEALTHCHECK: () => (image.health = { flags, command: JSON.parse(value.replace(/^CMD\s+/, '')) }),
    ENTRYPOINT: () => (image.entrypoint = value),
    CMD: () => (image.command = value),
    COPY: () => copy(image, flags, value, built),
  };
  if (!known[word]) throw new Error(`${word} in the last stage is not known here; teach scripts/ship/imageOf.mjs to follow it`);
  known[word]();
}

function copy(image, flags, value, { stage, out, folder }) {
  const [from, to] = value.split(/\s+/);
  if (flags.from !== stage || !from.startsWith(`${out}/`)) throw new Error(`COPY ${value} takes something that the stage ${stage} does not hand over`);
  const target = join(image.root, to);
  const isNew = !existsSync(target);
  cpSync(join(folder, from.slice(out.length)), target, { recursive: true, verbatimSymlinks: true });
  if (!flags.chown || !isNew) return;
  const [uid, gid] = flags.chown.split(':').map(Number);
  chownSync(target, uid, gid);
  chmodSync(target, Number.parseInt(flags.chmod, 8));
}

/** Names of programs in the root by which somebody could get a shell. */
export function shellsIn(root) {
  const names = new Set(['sh', 'ash', 'bash', 'dash', 'busybox', 'zsh', 'perl', 'python3', 'apt', 'dpkg']);
  return readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => !entry.isDirectory() && names.has(basename(entry.name)) && entry.parentPath.endsWith('bin')).map((entry) => join(entry.parentPath, entry.name));
}
