/**
 * All proofs: what each proves in one sentence, its command, the limit that ends it if it hangs, and what it needs
 * from the machine (requirements.mjs). A proof with `isAlone` measures the machine and runs with nothing beside it.
 */
export const PROOFS = [
  {
    name: 'soak',
    proves: 'A minute at half of the standard load: memory, database and latency do not grow, and nothing is lost.',
    command: 'npm run --silent soak -- --seconds 60',
    limitMinutes: 10,
    isAlone: true,
  },
  {
    name: 'bench',
    proves: 'The short benchmark runs and prints its ratios.',
    command: 'npm run --silent bench -- --short',
    limitMinutes: 20,
    needs: ['binary'],
    isAlone: true,
  },
  {
    name: 'crash',
    proves: 'Server and broker are killed at every step of an execution: nothing is lost, doubled or wrong.',
    command: 'npm run --silent test:crash -- --rounds 1',
    limitMinutes: 30,
    needs: ['mosquitto'],
  },
  {
    name: 'slow-tests',
    proves:
      'The tests that kill processes many times, move large amounts of data or break protos (test/**/*.slow.test.ts) pass.',
    command: 'npm run --silent test:slow',
    limitMinutes: 30,
  },
  {
    name: 'gateway',
    proves: 'The gateway library survives kills of server and gateway, clock jumps and a full disk.',
    command: 'npm run --silent test:gateway -- --kills 10 --commands 200 --uplinks 2000',
    limitMinutes: 20,
    needs: ['linux', 'root'],
  },
  {
    name: 'tours',
    proves: 'The README tour and every documented call work as pasted.',
    command: 'node scripts/readmeCommands.mjs',
    limitMinutes: 20,
    needs: ['curl', 'mosquitto', 'grpcurl'],
  },
  {
    name: 'generated-clients',
    proves: 'Clients that public generators create from /openapi.json compile and work.',
    command: 'node scripts/rest/generatedClient.mjs && node scripts/rest/generators.mjs',
    limitMinutes: 20,
    needs: ['python', 'go'],
  },
  {
    name: 'schemathesis',
    proves: 'The server keeps the promises of /openapi.json for generated requests.',
    command: 'node scripts/rest/apiTester.mjs schemathesis --max-examples 5 --phases examples,coverage,fuzzing',
    limitMinutes: 15,
    needs: ['schemathesis'],
  },
  {
    name: 'client',
    proves: 'The package plantroom-client installs into an empty project, compiles and works, also on older Node.',
    command: 'npm run --silent test:client',
    limitMinutes: 15,
  },
  {
    name: 'examples',
    proves: 'The Python and Go examples work over cut links and kills.',
    command: 'npm run --silent test:examples',
    limitMinutes: 20,
    needs: ['python', 'go'],
  },
  {
    name: 'brokers',
    proves: 'Connections work with a real Mosquitto.',
    command: 'npm run --silent test:brokers',
    limitMinutes: 20,
    needs: ['mosquitto'],
  },
  {
    name: 'postgres',
    proves: 'A backup of PostgreSQL with its own tools is restored with every row.',
    command: 'npm run --silent test:postgres',
    limitMinutes: 10,
    needs: ['postgresql'],
  },
  {
    name: 'ship',
    proves: 'The binary serves the README tour, upgrades, restores and installs on a bare Debian.',
    command: 'npm run --silent ship',
    limitMinutes: 20,
    needs: ['linux', 'root', 'binary', 'debootstrap', 'curl', 'iproute2'],
  },
  {
    name: 'image',
    proves: 'Install script and systemd unit are clean, and the image of the Dockerfile runs.',
    command: 'sh scripts/ship/checkDeploy.sh && node scripts/ship/image.mjs',
    limitMinutes: 15,
    needs: ['linux', 'root', 'binary', 'debootstrap', 'shellcheck', 'iproute2'],
  },
  {
    name: 'arm64',
    proves: 'The single binary for linux-arm64 is built, and starts in an emulator.',
    command: 'node scripts/binary/build.mjs linux-arm64',
    limitMinutes: 10,
    needs: ['qemu'],
  },
  {
    name: 'alerts',
    proves: 'Alert rules fire in their test cases only; scrape configuration and dashboard queries are valid.',
    command: 'bash scripts/checkAlerts.sh',
    limitMinutes: 5,
    needs: ['promtool'],
  },
  {
    name: 'demo',
    proves: 'The demo runs a command to its effect.',
    command: 'npm run --silent demo',
    limitMinutes: 5,
  },
];
