// What proofs need from the machine: how to find it, and how to install it where that is allowed.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { host } from '../binary/targets.mjs';
import { findCurrentBinary } from '../ship/program.mjs';

/** Where tools are installed that are not Debian packages. */
const TOOLS = resolve('node_modules/.cache/proof-tools');
const PYTHON_TOOLS = join(TOOLS, 'python');
const INSTALL_TIMEOUT_MS = 300_000;

/** The PATH with the installed tools, and with the folders of system programs that a user's PATH may lack. */
export const PROOF_PATH = [process.env.PATH, TOOLS, join(PYTHON_TOOLS, 'bin'), '/usr/sbin', '/sbin'].join(':');

const isRoot = process.getuid?.() === 0;
let hasPackageLists = false;

/** Runs a program and returns whether it succeeded. Its output goes to standard error if `isShown`. */
function run(command, args, env = {}) {
  const { status } = spawnSync(command, args, {
    env: { ...process.env, PATH: PROOF_PATH, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
    timeout: INSTALL_TIMEOUT_MS,
  });
  return status === 0;
}

const findInPath = (program) => PROOF_PATH.split(':').some((folder) => existsSync(join(folder, program)));

const APT_ENV = { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' };
const apt = (...args) => run(isRoot ? 'apt-get' : 'sudo', isRoot ? args : ['-n', 'apt-get', ...args], APT_ENV);

/** Installs Debian packages. RUNLEVEL=1 prevents the start of services: proofs start their own. */
function installPackages(...packages) {
  if (!findInPath('apt-get')) return;
  hasPackageLists ||= apt('update', '-qq');
  apt('install', '-qq', '-y', '--no-install-recommends', ...packages);
}

/** A program of a Debian package. */
const program = (name, ...packages) => ({
  description: name,
  isPresent: () => findInPath(name),
  install: () => installPackages(...packages),
});

const hasPostgresTools = () =>
  existsSync('/usr/lib/postgresql') &&
  readdirSync('/usr/lib/postgresql').some((version) =>
    ['initdb', 'pg_restore'].every((tool) => existsSync(join('/usr/lib/postgresql', version, 'bin', tool))),
  );

/** `isPresent` is asked again after `install`. A requirement without `install` is a property of the machine. */
const REQUIREMENTS = {
  linux: { description: 'Linux', isPresent: () => process.platform === 'linux' },
  root: { description: 'root', isPresent: () => isRoot },
  mosquitto: program('mosquitto', 'mosquitto'),
  curl: program('curl', 'curl'),
  shellcheck: program('shellcheck', 'shellcheck'),
  iproute2: program('ip', 'iproute2'),
  promtool: program('promtool', 'prometheus'),
  python: {
    description: 'Python 3 with venv',
    isPresent: () => run('python3', ['-c', 'import venv, ensurepip']),
    install: () => installPackages('python3', 'python3-venv'),
  },
  go: program('go', 'golang-go'),
  debootstrap: {
    description: 'mmdebstrap or debootstrap',
    isPresent: () => findInPath('mmdebstrap') || findInPath('debootstrap'),
    install: () => installPackages('mmdebstrap'),
  },
  postgresql: {
    description: 'PostgreSQL with pg_dump and pg_restore',
    isPresent: hasPostgresTools,
    install: () => installPackages('postgresql'),
  },
  qemu: {
    description: 'qemu-aarch64-static with the libraries of arm64',
    isPresent: () => findInPath('qemu-aarch64-static') && existsSync('/usr/aarch64-linux-gnu/lib/libstdc++.so.6'),
    install: () => installPackages('qemu-user-static', 'libc6-arm64-cross', 'libstdc++6-arm64-cross'),
  },
  grpcurl: {
    description: 'grpcurl',
    isPresent: () => findInPath('grpcurl'),
    install: () => run('go', ['install', 'github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3'], { GOBIN: TOOLS }),
  },
  schemathesis: {
    description: 'schemathesis',
    isPresent: () => findInPath('schemathesis'),
    install: () =>
      run('python3', ['-m', 'venv', PYTHON_TOOLS]) &&
      run(join(PYTHON_TOOLS, 'bin/pip'), ['install', '-q', '--disable-pip-version-check', 'schemathesis==4.32.5']),
  },
  binary: {
    description: `the single binary for ${host}`,
    isPresent: () => {
      try {
        return findCurrentBinary() !== undefined;
      } catch {
        return false; // not built, or outdated
      }
    },
    install: () => run(process.execPath, ['scripts/binary/build.mjs', 'host']),
  },
};

/** Installs what is missing. Returns the descriptions of what is still missing. */
export function provideRequirements(names = []) {
  const missing = names.map((name) => REQUIREMENTS[name]).filter(({ isPresent }) => !isPresent());
  for (const { install } of missing) install?.();
  return missing.filter(({ isPresent }) => !isPresent()).map(({ description }) => description);
}
