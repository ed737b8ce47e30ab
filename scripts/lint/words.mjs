// Finds retired words (retiredWords.mjs) in identifiers and string literals of the code, and in pages, protos and
// deployment files: `node scripts/lint/words.mjs`. Exits with 1 if there are any.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import ts from 'typescript';
import { EXEMPT, FUNCTIONS, IDENTIFIERS, TEXTS } from './retiredWords.mjs';

const code = listFiles(['src', 'test', 'scripts']).filter((file) => /\.(ts|mjs|cjs)$/.test(file));
const pages = listFiles(['docs', 'proto', 'deploy', 'README.md', 'CONTRIBUTING.md']).filter((file) =>
  /\.(md|proto|ya?ml|sh|py|go|ts)$/.test(file),
);

const findings = [
  ...code.flatMap((file) => findRetiredWords(file, readFileSync(file, 'utf8'))),
  ...pages.flatMap((file) => findRetiredTexts(file, readFileSync(file, 'utf8'))),
];
for (const finding of findings) console.error(finding);
process.exit(findings.length > 0 ? 1 : 0);

/** Lists the files of git in these places, without exempt and deleted ones. */
function listFiles(places) {
  return execFileSync('git', ['ls-files', '-co', '--exclude-standard', ...places], { encoding: 'utf8' })
    .split('\n')
    .filter((file) => file !== '' && existsSync(file) && !EXEMPT.some((pattern) => pattern.test(file)));
}

function findRetiredTexts(file, text) {
  return text.split('\n').flatMap((line, index) => {
    const [, advice] = TEXTS.find(([pattern]) => pattern.test(line)) ?? [];
    return advice ? [`${file}:${index + 1}: ${JSON.stringify(line.trim())}: ${advice}`] : [];
  });
}

function findRetiredWords(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found = [];
  const check = (node, word, patterns) => {
    const [, advice] = patterns.find(([pattern]) => pattern.test(word)) ?? [];
    if (!advice) return;
    const { line } = source.getLineAndCharacterOfPosition(node.getStart(source));
    found.push(`${file}:${line + 1}: ${JSON.stringify(word)}: ${advice}`);
  };
  const visit = (node) => {
    if (isDeclaredName(node))
      check(node, node.text, isFunctionName(node) ? [...IDENTIFIERS, ...FUNCTIONS] : IDENTIFIERS);
    else if (ts.isStringLiteralLike(node) || ts.isTemplateHead(node) || ts.isTemplateMiddleOrTemplateTail(node))
      check(node, node.text, TEXTS);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function isDeclaredName(node) {
  return ts.isIdentifier(node) && node.parent?.name === node && !ts.isPropertyAccessExpression(node.parent);
}

function isFunctionName({ parent }) {
  const { initializer } = parent;
  return (
    ts.isFunctionDeclaration(parent) ||
    ts.isMethodDeclaration(parent) ||
    (initializer !== undefined && (ts.isArrowFunction(initializer) || ts.isFunctionExpression(initializer)))
  );
}
