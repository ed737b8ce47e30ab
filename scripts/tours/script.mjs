// Builds one shell script from the marked blocks of a page, which runs them as a reader would paste them. The callers
// select the blocks by their mark:
//   <!-- tour -->              run
//   <!-- tour:key -->          run with the API key of the server
//   <!-- tour:checkout -->     run: defines `plantroom` in a checkout
//   <!-- tour:background -->   run in the background, and stopped at the end
//   <!-- tour:until TEXT -->   run repeatedly until the output contains TEXT
//   <!-- tour:refused TEXT --> run; the command must fail, and its output must contain TEXT
//   <!-- tour:stream TEXT -->  run in a separate terminal; its output must contain TEXT before the end
//   <!-- tour:page TEXT -->    a script of a web page, run like a stream
import { readFileSync, writeFileSync } from 'node:fs';

const useLocalhost = (address) => address.replace('127.0.0.1', 'localhost');

/** Lists the marked blocks of a page, in their order. */
export function listBlocks(file) {
  return [...readFileSync(file, 'utf8').matchAll(/<!-- tour(?::([^>]+?))? -->\n```(?:sh|js)\n([\s\S]*?)```/g)].map(
    ([, kind, text]) => ({ kind: kind ?? 'run', text }),
  );
}

/**
 * Builds one script from the blocks. It uses other ports and another data folder than the page, stops at the first
 * error, and prints TOUR COMPLETE at the end.
 */
export function buildScript(blocks, { key, organization, grpc, http, port, folder }) {
  const lines = [
    'set -euo pipefail',
    `STREAMS=; trap 'kill -- \${SIMULATOR:+-$SIMULATOR} $STREAMS 2>/dev/null || true' EXIT`,
  ];
  const streams = [];
  for (const { kind: mark, text: original } of blocks) {
    const [kind, expectedText] = mark.split(/ (.*)/s, 2);
    const text = original
      .replaceAll('plr_...', key)
      .replaceAll('ORGANIZATION_ID=...', `ORGANIZATION_ID=${organization}`)
      .replaceAll("'X-Organization-Id': '...'", `'X-Organization-Id': '${organization}'`)
      .replaceAll('localhost:50051', useLocalhost(grpc))
      .replaceAll('localhost:8443', useLocalhost(http))
      .replaceAll('localhost:1883', `localhost:${port}`)
      .replaceAll('data/tls', `${folder}/data/tls`)
      .trim();
    const output = `${folder}/answers-${lines.length}`;
    if (kind === 'background')
      lines.push(
        `set -m; ${text.replace(/&$/, `> ${folder}/simulator.log 2>&1 &`)} SIMULATOR=$!; set +m`,
        `until grep -qiE 'attached|connected' ${folder}/simulator.log; do kill -0 $SIMULATOR; sleep 0.2; done`,
      );
    else if (kind === 'until')
      lines.push(`until { ${text}; } | tee ${output} | grep -q '${expectedText}'; do sleep 0.3; done; cat ${output}`);
    else if (kind === 'refused')
      lines.push(
        `if { ${text}; } > ${output} 2>&1; then cat ${output}; echo 'this command must fail'; exit 1; fi`,
        `cat ${output}; grep -q '${expectedText}' ${output}`,
      );
    else if (kind === 'stream' || kind === 'page')
      streams.push({ output, expectedText, number: lines.push(...buildStreamStart(kind, text, output)) });
    else lines.push(text);
  }
  for (const { output, expectedText, number } of streams)
    lines.push(
      `until grep -q '${expectedText}' ${output}; do kill -0 $STREAM_${number}; sleep 0.2; done; cat ${output}`,
    );
  lines.push('if [ -n "${SIMULATOR:-}" ]; then kill -- -$SIMULATOR; wait $SIMULATOR || true; fi', 'echo TOUR COMPLETE');
  return lines.join('\n');

  /** Starts a stream in a separate process group, which the trap kills, and waits for its first output. */
  function buildStreamStart(kind, text, output) {
    const number = lines.length + 1;
    if (kind === 'page') writeFileSync(`${folder}/page.mjs`, text);
    const command = kind === 'page' ? `NODE_EXTRA_CA_CERTS=${folder}/data/tls/ca.pem node ${folder}/page.mjs` : text;
    return [
      `set -m; { ${command}; } > ${output} 2>&1 & STREAM_${number}=$!; STREAMS="$STREAMS -$!"; set +m; until [ -s ${output} ]; do kill -0 $STREAM_${number}; sleep 0.1; done`,
    ];
  }
}
