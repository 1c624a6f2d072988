use pollux_domain::approval::ApprovalMode;
#[test]
fn probe() {
    let (l, s) = (crate::everyday::listed(), crate::everyday::shipped());
    for line in std::fs::read_to_string("/tmp/cmds.txt").unwrap().lines() {
        let c = crate::lines::unescape(line);
        let a = crate::everyday::decide(&s, &c, ApprovalMode::Default, true);
        let b = crate::everyday::decide(&l, &c, ApprovalMode::Default, true);
        println!("{:?}\t{:?}\t{c:?}\t{}", a.decision, b.decision, b.reason);
    }
}
