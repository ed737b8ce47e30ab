// Makes of the marked blocks of a page one script for a shell, as a newcomer would paste them. Which blocks are for whom: the callers leave out the others.
//   <!-- tour -->            pasted
//   <!-- tour:key -->        pasted with the key of the server
//   <!-- tour:checkout -->   pasted: what `plantroom` is in a checkout
//   <!-- tour:background --> pasted; what it starts is ended at the end
//   <!-- tour:until TEXT --> pasted again and again until its answer holds the text
//   <!-- tour:refused TEXT --> pasted; it must fail, with an answer that holds the text
//   <!-- tour:stream TEXT --> pasted into a terminal of its own, and left when its answers hold the text, at the end at the latest
//   <!-- tour:page TEXT -->  a script for a page, run beside: as a stream
import { readFileSync, writeFileSync } from 'node:fs';

const local = (address) => address.replace('127.0.0.1', 'localhost');

/** The marked blocks of a page, in their order. */
export function blocksOf(file) {
  return [...readFileSync(file, 'utf8').matchAll(/<!-- tour(?::([^>]+?))? -->\n```(?:sh|js)\n([\s\S]*?)```/g)].map(([, kind, text]) => ({ kind: kind ?? 'run', text }));
}

/** The blocks as one script. What differs from a newcomer's machine: the ports, the data folder, and that it stops at the first mistake. Its last line is TOUR COMPLETE. */
export function scriptOf(blocks, { key, organization, grpc, http, port, folder }) {
  const lines = ['set -euo pipefail', `STREAMS=; trap 'kill -- \${SIMULATOR:+-$SIMULATOR} $STREAMS 2>/dev/null || true' EXIT`];
  const streams = [];
  for (const { kind: name, text: given } of blocks) {
    const [kind, wanted] = name.split(/ (.*)/s, 2);
    const text = given
      .replaceAll('plr_...', key)
      .replaceAll('ORGANIZATION_ID=...', `ORGANIZATION_ID=${organization}`)
      .replaceAll("'X-Organization-Id': '...'", `'X-Organization-Id': '${organization}'`)
      .replaceAll('localhost:50051', local(grpc))
      .replaceAll('localhost:8443', local(http))
      .replaceAll('localhost:1883', `localhost:${port}`)
      .replaceAll('data/tls', `${folder}/data/tls`)
      .trim();
    const answers = `${folder}/answers-${lines.length}`;
    if (kind === 'background') lines.push(`set -m; ${text.replace(/&$/, `> ${folder}/simulator.log 2>&1 &`)} SIMULATOR=$!; set +m`, `until grep -qiE 'attached|connected' ${folder}/simulator.log; do kill -0 $SIMULATOR; sleep 0.2; done`);
    else if (kind === 'until') lines.push(`until { ${text}; } | tee ${answers} | grep -q '${wanted}'; do sleep 0.3; done; cat ${answers}`);
    else if (kind === 'refused') lines.push(`if { ${text}; } > ${answers} 2>&1; then cat ${answers}; echo 'this was to be refused'; exit 1; fi`, `cat ${answers}; grep -q '${wanted}' ${answers}`);
    else if (kind === 'stream' || kind === 'page') streams.push({ answers, wanted, number: lines.push(...started(kind, text, answers)) });
    else lines.push(text);
  }
  for (const { answers, wanted, number } of streams) lines.push(`until grep -q '${wanted}' ${answers}; do kill -0 $STREAM_${number}; sleep 0.2; done; cat ${answers}`);
  lines.push('if [ -n "${SIMULATOR:-}" ]; then kill -- -$SIMULATOR; wait $SIMULATOR || true; fi', 'echo TOUR COMPLETE');
  return lines.join('\n');

  /** In a process group of its own, which the trap ends whole; goes on when the first answer is there. */
  function started(kind, text, answers) {
    const number = lines.length + 1;
    if (kind === 'page') writeFileSync(`${folder}/page.mjs`, text);
    const command = kind === 'page' ? `NODE_EXTRA_CA_CERTS=${folder}/data/tls/ca.pem node ${folder}/page.mjs` : text;
    return [`set -m; { ${command}; } > ${answers} 2>&1 & STREAM_${number}=$!; STREAMS="$STREAMS -$!"; set +m; until [ -s ${answers} ]; do kill -0 $STREAM_${number}; sleep 0.1; done`];
  }
}
